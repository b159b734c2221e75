#include "python/ring.h"

#include "python/engine.h"
#include "python/named.h"
#include "python/view.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <weft/c_ring.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::python {

namespace {

/// A messenger of Python's, as the C face wants one. Its functions are called without the interpreter's lock.
class Messages {
 public:
  static weft_messenger made_of(nb::object messenger) {
    weft_messenger out = weft_messenger_init();
    out.rank = nb::cast<std::int32_t>(messenger.attr("rank"));
    out.ranks = nb::cast<std::int32_t>(messenger.attr("ranks"));
    out.send = &send;
    out.receive = &receive;
    out.test = &test;
    out.cancel = &cancel;
    out.end = &end;
    out.context = new Messages(std::move(messenger));
    return out;
  }

  static void end(void* context) {
    auto* const self = static_cast<Messages*>(context);
    if (Py_IsInitialized() == 0) return;  // nothing of Python's may be freed any more
    ask(context, [](Messages& one) { one.messenger_.attr("end")(); });
    const nb::gil_scoped_acquire locked;
    delete self;
  }

 private:
  explicit Messages(nb::object messenger) : messenger_(std::move(messenger)) {}

  /// What `use` throws, as a text that lives until the next call.
  template <typename Use>
  static const char* ask(void* context, const Use& use) {
    auto& self = *static_cast<Messages*>(context);
    if (Py_IsInitialized() == 0) return "the interpreter has ended";
    const nb::gil_scoped_acquire locked;
    try {
      use(self);
      return nullptr;
    } catch (nb::python_error& error) {
      self.wrong_ = nb::cast<std::string>(nb::str(error.value()));
    } catch (const std::exception& error) {
      self.wrong_ = error.what();
    }
    return self.wrong_.c_str();
  }

  static nb::object memory(void* data, std::size_t bytes, bool written) {
    constexpr int kRead = 0x100, kWrite = 0x200;  // PyBUF_READ and PyBUF_WRITE, which the stable ABI has since 3.11
    PyObject* const view =
        PyMemoryView_FromMemory(static_cast<char*>(data), static_cast<Py_ssize_t>(bytes), written ? kWrite : kRead);
    if (view == nullptr) throw nb::python_error();
    return nb::steal(view);
  }

  static const char* send(void* context, std::int32_t peer, std::int32_t tag, const void* data, std::size_t bytes,
                          std::uint64_t* request) {
    return ask(context, [&](Messages& self) {
      const nb::object made = self.messenger_.attr("send")(peer, tag, memory(const_cast<void*>(data), bytes, false));
      *request = nb::cast<std::uint64_t>(made);
    });
  }
  static const char* receive(void* context, std::int32_t peer, std::int32_t tag, void* data, std::size_t bytes,
                             std::uint64_t* request) {
    return ask(context, [&](Messages& self) {
      *request = nb::cast<std::uint64_t>(self.messenger_.attr("receive")(peer, tag, memory(data, bytes, true)));
    });
  }
  static const char* test(void* context, std::uint64_t request, std::int32_t* is_done, std::size_t* bytes) {
    return ask(context, [&](Messages& self) {
      const nb::object done = self.messenger_.attr("test")(request);
      *is_done = done.is_none() ? 0 : 1;
      *bytes = done.is_none() ? 0 : nb::cast<std::size_t>(done);
    });
  }
  static void cancel(void* context, std::uint64_t request) {
    ask(context, [&](Messages& self) { self.messenger_.attr("cancel")(request); });
  }

  nb::object messenger_;
  std::string wrong_;
};

class Transport {
 public:
  explicit Transport(weft_transport* handle) : handle_(handle) {}
  static Transport of_messages(nb::object messenger) {
    const weft_messenger of = Messages::made_of(std::move(messenger));
    weft_transport* made = nullptr;
    weft_error* const error = weft_message_transport(&of, &made);
    if (error != nullptr) Messages::end(of.context);
    check(error, Stage::arguments);
    return Transport(made);
  }
  /// Rows on GPUs go by NCCL, all else by this one. Collective, so without the interpreter's lock.
  Transport with_nccl(std::int32_t device, std::int64_t timeout_ms) {
    weft_nccl_options options = weft_nccl_options_init();
    options.device = device;
    options.timeout_ms = timeout_ms;
    weft_transport *const control = release(), *made = nullptr;
    check_unlocked(Stage::arguments, [&] { return weft_nccl_transport(control, &options, &made); });
    return Transport(made);
  }
  weft_transport* release() {
    if (handle_ == nullptr) throw_named("ArgumentError", "the transport belongs to a ring already");
    return handle_.release();
  }

 private:
  struct Free {
    void operator()(weft_transport* transport) const { weft_transport_free(transport); }
  };
  std::unique_ptr<weft_transport, Free> handle_;
};

nb::list local_transports(std::int32_t ranks) {
  std::vector<weft_transport*> made(static_cast<std::size_t>(std::max(ranks, 0)));
  check(weft_local_transports(ranks, made.data()), Stage::arguments);
  nb::list out;
  for (weft_transport* one : made) out.append(nb::cast(Transport(one)));
  return out;
}

class Ring {
 public:
  Ring(Transport& transport, int layout, int carrier, std::int64_t timeout_ms, std::size_t memory) {
    weft_ring_options options = weft_ring_options_init();
    options.layout = static_cast<weft_ring_layout>(layout);
    options.carrier = static_cast<weft_ring_carrier>(carrier);
    options.timeout_ms = timeout_ms;
    options.memory = memory;
    weft_transport* const taken = transport.release();
    rank_ = weft_transport_rank(taken);
    ranks_ = weft_transport_ranks(taken);
    weft_ring* made = nullptr;
    check_unlocked(Stage::arguments, [&] { return weft_ring_join(taken, &options, &made); });
    handle_.reset(made);
  }
  weft_ring* handle() const { return handle_.get(); }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  void barrier() const {
    check_unlocked(Stage::arguments, [&] { return weft_ring_barrier(handle()); });
  }

 private:
  struct Destroy {
    void operator()(weft_ring* ring) const { weft_ring_destroy(ring); }
  };
  std::unique_ptr<weft_ring, Destroy> handle_;
  int rank_ = 0, ranks_ = 1;
};

class RingPlan {
 public:
  RingPlan(const Ring& ring, const Kernel& kernel,
           std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t> of, const nb::object& inputs)
      : kernel_(kernel) {
    const auto [batch, tokens, heads, kv_heads] = of;
    Stream none = Stream::unready();
    const NamedViews views(inputs, kernel.pattern(), none);
    weft_ring_plan* made = nullptr;
    check_unlocked(Stage::arguments, [&] {
      return weft_ring_plan_create(ring.handle(), kernel.handle(), {batch, tokens, heads, kv_heads},
                                   views.tensors().data(), views.tensors().size(), &made);
    });
    handle_.reset(made);
  }

  using Run = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  std::vector<Run> owned(std::int32_t rank) const {
    std::vector<Run> out;
    for (std::size_t i = 0; i < weft_ring_plan_run_count(handle_.get(), rank); ++i) {
      const weft_token_run run = weft_ring_plan_run(handle_.get(), rank, i);
      out.emplace_back(run.first, run.count, run.stride);
    }
    return out;
  }
  std::string bits() const { return weft_ring_plan_bits(handle_.get()); }
  std::string carrier() const { return weft_ring_plan_carrier(handle_.get()); }
  std::string layout() const { return weft_ring_plan_layout(handle_.get()); }
  nb::dict share() const {
    const weft_ring_share share = weft_ring_plan_share(handle_.get());
    nb::dict out;
    out["tokens"] = share.tokens;
    out["messages"] = share.messages;
    out["pairs"] = share.pairs;
    out["needed_bytes"] = share.needed_bytes;
    out["received_bytes"] = share.received_bytes;
    out["sent_bytes"] = share.sent_bytes;
    out["wait_ms"] = share.wait_ms;
    return out;
  }

  /// `arrays`: by the names of weft_ring_args; None where there is none. `d_inputs`: a dict, or None.
  void run(const nb::dict& arrays, const nb::object& inputs, const nb::object& d_inputs, std::uint64_t seed,
           std::int32_t threads) const {
    static constexpr std::pair<const char*, weft_tensor weft_ring_args::*> kPlaces[] = {
        {"q", &weft_ring_args::q},
        {"k", &weft_ring_args::k},
        {"v", &weft_ring_args::v},
        {"out", &weft_ring_args::out},
        {"lse", &weft_ring_args::lse},
        {"d_out", &weft_ring_args::d_out},
        {"d_lse", &weft_ring_args::d_lse},
        {"dq", &weft_ring_args::dq},
        {"dk", &weft_ring_args::dk},
        {"dv", &weft_ring_args::dv},
        {"branch_lse", &weft_ring_args::branch_lse}};
    weft_ring_args args = weft_ring_args_init();
    const bool on_gpu = std::string_view(weft_kernel_target(kernel_.handle())).starts_with("sm_");
    Stream stream = on_gpu ? Stream(nb::none()) : Stream::unready();
    const NamedViews views(inputs, kernel_.pattern(), stream), gradients(d_inputs, kernel_.pattern(), stream);
    std::optional<View> held[std::size(kPlaces)];
    for (std::size_t i = 0; i < std::size(kPlaces); ++i) {
      const auto& [name, place] = kPlaces[i];
      if (!arrays.contains(name) || arrays[name].is_none()) continue;
      view_input(held[i], nb::object(arrays[name]), name, stream);
      if (held[i]->device().starts_with("cuda") != on_gpu) {
        throw_named("ArgumentError", std::string(name) + " is on " + held[i]->device() + "; expected " +
                                         (on_gpu ? "a GPU" : "cpu") + ", as the plan's target is " +
                                         weft_kernel_target(kernel_.handle()));
      }
      args.*place = held[i]->tensor(false);
    }
    args.inputs = views.tensors().data();
    args.input_count = views.tensors().size();
    args.d_inputs = gradients.tensors().data();
    args.d_input_count = gradients.tensors().size();
    args.dropout_seed = seed;
    args.threads = threads;
    args.stream = reinterpret_cast<void*>(stream.address());
    check_unlocked(Stage::arguments, [&] { return weft_ring_run(handle_.get(), &args); });
  }

  /// `whole`: None on all ranks but the first.
  void gather(const nb::object& rows, std::int32_t axis, const nb::object& whole) const {
    Stream none = Stream::unready();
    const View from(rows, "rows", none);
    weft_tensor to = {};
    std::unique_ptr<View> place;
    if (!whole.is_none()) {
      place = std::make_unique<View>(whole, "whole", none);
      to = place->tensor(false);
    }
    check_unlocked(Stage::arguments, [&] { return weft_ring_gather(handle_.get(), from.tensor(false), axis, to); });
  }

 private:
  struct Destroy {
    void operator()(weft_ring_plan* plan) const { weft_ring_plan_destroy(plan); }
  };
  const Kernel& kernel_;  // which the plan keeps alive
  std::unique_ptr<weft_ring_plan, Destroy> handle_;
};

}  // namespace

void bind_ring(nb::module_& module) {
  nb::class_<Transport>(module, "Transport")
      .def("__init__", [](Transport* self,
                          nb::object messenger) { new (self) Transport(Transport::of_messages(std::move(messenger))); })
      .def("with_nccl", &Transport::with_nccl);
  module.def("local_transports", &local_transports);
  nb::class_<Ring>(module, "Ring")
      .def(nb::init<Transport&, int, int, std::int64_t, std::size_t>())
      .def_prop_ro("rank", &Ring::rank)
      .def_prop_ro("ranks", &Ring::ranks)
      .def("barrier", &Ring::barrier);
  nb::class_<RingPlan>(module, "RingPlan")
      .def(nb::init<const Ring&, const Kernel&, std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>,
                    const nb::object&>(),
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::arg("ring"), nb::arg("kernel"), nb::arg("shape"),
           nb::arg("inputs").none())
      .def("owned", &RingPlan::owned)
      .def("bits", &RingPlan::bits)
      .def("carrier", &RingPlan::carrier)
      .def("layout", &RingPlan::layout)
      .def("share", &RingPlan::share)
      .def("run", &RingPlan::run, nb::arg("arrays"), nb::arg("inputs").none(), nb::arg("d_inputs").none(),
           nb::arg("seed"), nb::arg("threads"))
      .def("gather", &RingPlan::gather, nb::arg("rows"), nb::arg("axis"), nb::arg("whole").none());
}

}  // namespace weft::python
