#include "python/launch.h"

#include "python/library.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>

namespace weft::python {

namespace {

std::vector<std::int64_t> integers(const nb::object& said, const char* name) {
  if (said.is_none()) return {};
  return nb::cast<std::vector<std::int64_t>>(of_arrays("integers")(said, name));
}

/// No borders are not none: a batch of no sequences is none of one.
std::vector<std::int64_t> borders(const nb::object& said, const char* name) {
  auto out = integers(said, name);
  if (!said.is_none() && out.empty())
    throw_named("ArgumentError", std::string(name) + " has no entries; one sequence has two");
  return out;
}

/// Drawn where none is said, and only where weights are dropped.
std::uint64_t seed_of(const Kernel& kernel, const nb::object& said, nb::handle q) {
  if (said.is_none() && !kernel.drops()) return 0;
  const nb::object seed = said.is_none() ? of_arrays("draw_seed")(q) : said;
  if (PyIndex_Check(seed.ptr()) == 0) {
    throw nb::type_error(("seed is a " + std::string(nb::inst_name(seed).c_str()) +
                          "; expected an int, or an array of one int64 on the device of q")
                             .c_str());
  }
  const std::uint64_t bits = PyLong_AsUnsignedLongLongMask(seed.ptr());
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return bits;
}

}  // namespace

void check_axes(const View& view, bool heads_first) {
  if (view.rank() == 4) return;
  throw_named("ArgumentError", view.name() + " has " + std::to_string(view.rank()) + " axes: " + shown(view.shape()) +
                                   "; expected 4: " + (heads_first ? "[B, H, n, d]" : "[B, n, H, d]"));
}

Launch::Launch(const Kernel& kernel, nb::object q, nb::object k, nb::object v, const LaunchOptions& said)
    : kernel_(kernel), heads_first_(said.heads_first), stream_(said.stream) {
  look(q_, std::move(q), "q");
  look(k_, std::move(k), "k");
  look(v_, std::move(v), "v");
  inputs_.emplace(said.inputs, kernel.pattern(), stream_);
  offset_ = integers(said.offset, "offset");
  if (nb::hasattr(said.cu_q, "most")) {
    args.cu_q_at = look_at_borders(cu_q_at_, said.cu_q, "cu_q", args.most_q);
    args.cu_k_at = look_at_borders(cu_k_at_, said.cu_k, "cu_k", args.most_k);
    args.sequences_at = cu_q_at_->extent(0) - 1;
  } else {
    cu_q_ = borders(said.cu_q, "cu_q");
    cu_k_ = borders(said.cu_k, "cu_k");
  }
  args.q = q_->tensor(heads_first_);
  args.k = k_->tensor(heads_first_);
  args.v = v_->tensor(heads_first_);
  args.inputs = inputs_->tensors().data();
  args.input_count = inputs_->tensors().size();
  args.offset = offset_.data();
  args.offset_count = offset_.size();
  args.cu_q = cu_q_.data();
  args.cu_q_count = cu_q_.size();
  args.cu_k = cu_k_.data();
  args.cu_k_count = cu_k_.size();
  if (!said.seed.is_none() && PyLong_Check(said.seed.ptr()) == 0 && nb::hasattr(said.seed, "__dlpack__")) {
    look_at_seed(said.seed);
  } else {
    args.dropout_seed = seed_of(kernel, said.seed, q_->array());
  }
  args.threads = said.threads;
}

/// An array of one number, which the kernel reads when it runs.
void Launch::look_at_seed(const nb::object& said) {
  view_input(seed_, said, "seed", stream_);
  const bool one = std::ranges::all_of(seed_->shape(), [](std::int64_t extent) { return extent == 1; });
  if (seed_->dtype() != "i64" || !one) {
    throw_named("ArgumentError",
                "seed is " + seed_->dtype() + shown(seed_->shape()) + "; expected an int, or an array of one i64");
  }
  if (!seed_->same_device(*q_)) {
    throw_named("ArgumentError", "seed is on " + seed_->device() + "; expected " + q_->device() + ", as q");
  }
  args.dropout_seed_at = reinterpret_cast<const std::uint64_t*>(seed_->address());
}

const std::int32_t* Launch::look_at_borders(std::optional<View>& out, const nb::object& said, const char* name,
                                            std::int64_t& most) {
  view_input(out, said.attr("at"), name, stream_);
  most = nb::cast<std::int64_t>(said.attr("most"));
  const std::int64_t borders = cu_q_at_->extent(0);
  if (out->dtype() != "i32" || out->rank() != 1 || out->extent(0) != borders || borders < 2) {
    throw_named("ArgumentError", std::string(name) + " is " + out->dtype() + shown(out->shape()) +
                                     "; with max_q and max_k expected i32 [sequences + 1], the same of both");
  }
  if (!out->same_device(*q_)) {
    throw_named("ArgumentError",
                std::string(name) + " is on " + out->device() + "; expected " + q_->device() + ", as q");
  }
  return reinterpret_cast<const std::int32_t*>(out->address());
}

void Launch::look(std::optional<View>& out, nb::object array, const char* name) {
  view_input(out, std::move(array), name, stream_);
  check_axes(*out, heads_first_);
  if (&out == &q_) return;
  if (out->dtype() != q_->dtype()) {
    throw_named("ArgumentError", out->name() + " is " + out->dtype() + "; expected " + q_->dtype() + ", as q");
  }
  if (!out->same_device(*q_)) {
    throw_named("ArgumentError", out->name() + " is on " + out->device() + "; expected " + q_->device() + ", as q");
  }
}

Extents Launch::shape_of_out() const {
  Extents shape = q_->shape();
  shape[3] = v_->extent(3);
  return shape;
}

Extents Launch::shape_of_lse() const {
  if (weft_pattern_lse(kernel_.pattern()) != WEFT_LSE_OF_BRANCHES) return {batch(), heads(), rows()};
  return {weft_pattern_branch_count(kernel_.pattern()), batch(), heads(), rows()};
}

void Launch::run() {
  args.stream = reinterpret_cast<void*>(stream_.address());
  const auto attempt = [&] {
    const nb::gil_scoped_release unlocked;
    return weft_run(kernel_.handle(), &args);
  };
  weft_error* error = attempt();
  const nb::object scratch = error == nullptr ? nb::none() : scratch_of_a_graph(*error);
  if (!scratch.is_none()) {
    weft_error_free(error);
    error = attempt();
  }
  check(error, Stage::arguments);
}

/// While PyTorch captures a graph the engine lends it no memory of its own, and refuses, before anything is queued, a
/// launch that needs some: the graph's own memory then serves. None where that is not what is wrong.
nb::object Launch::scratch_of_a_graph(const weft_error& error) {
  if (weft_error_kind_of(&error) != WEFT_ERROR_USER || library_of(q_->array()) != Library::torch) return nb::none();
  std::size_t bytes = 0;
  weft_run_shape of_room = shape();
  if (args.sequences_at > 0) {
    of_room.batch = args.sequences_at;
    of_room.n_q = args.most_q;
    of_room.n_k = args.most_k;
  } else if (cu_q_.size() > 1) {  // sequences, with room for the longest of them
    const auto longest = [](const std::vector<std::int64_t>& cu, std::int64_t all) {
      std::int64_t out = cu.size() > 1 ? 0 : all;
      for (std::size_t i = 1; i < cu.size(); ++i) out = std::max(out, cu[i] - cu[i - 1]);
      return out;
    };
    of_room.batch = std::ssize(cu_q_) - 1;
    of_room.n_q = longest(cu_q_, of_room.n_q);
    of_room.n_k = longest(cu_k_, of_room.n_k);
  }
  // A backward pass keeps what is known of each packed row, of those of no sequence, too.
  of_room.n_q = std::max(of_room.n_q, (rows() + of_room.batch - 1) / of_room.batch);
  if (weft_error* const unknown = weft_kernel_workspace(kernel_.handle(), of_room, args.threads, &bytes)) {
    weft_error_free(unknown);
    return nb::none();
  }
  if (bytes == 0) return nb::none();
  nb::object scratch = of_arrays("captured_scratch")(q_->array(), bytes);
  if (scratch.is_none()) return scratch;
  args.workspace = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(scratch.attr("data_ptr")()));
  args.workspace_bytes = bytes;
  return scratch;
}

nb::object empty_like(const View& like, const Extents& shape, const std::string& dtype) {
  static Held numpy_empty("numpy", "empty"), numpy_f32("numpy", "float32"), torch_f32("torch", "float32");
  const bool same = dtype == like.dtype();
  switch (library_of(like.array())) {
    case Library::numpy:
      return numpy_empty.get()(tuple_of(shape), same ? like.array().attr("dtype") : nb::borrow(numpy_f32.get()));
    case Library::torch:
      if (same) return like.array().attr("new_empty")(tuple_of(shape));
      return like.array().attr("new_empty")(tuple_of(shape), nb::arg("dtype") = torch_f32.get());
    case Library::cupy:
    case Library::jax:
    case Library::other:
      break;
  }
  return of_arrays("empty")(like.array(), tuple_of(shape), dtype, same);
}

nb::object written(const View& like, nb::object array) {
  if (library_of(like.array()) != Library::jax || array.is_none()) return array;
  return of_arrays("to_jax")(array);
}

}  // namespace weft::python
