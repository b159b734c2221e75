#include "runtime/c_api/handles.h"
#include "runtime/c_api/tensors.h"
#include "runtime/c_api/versioned.h"

namespace weft::c_api {
namespace {

Result<RingOptions> options_of(const weft_ring_options* given) {
  WEFT_TRY(const auto from, read_versioned(given, "weft_ring_options", weft_ring_options_init()));
  constexpr RingLayout kLayouts[] = {RingLayout::automatic, RingLayout::contiguous, RingLayout::zigzag,
                                     RingLayout::striped};
  const int layout = from.layout;
  if (layout < WEFT_RING_AUTO || layout > WEFT_RING_STRIPED)
    return user_error(fmt::format("weft_ring_options::layout is {}", layout));
  constexpr RingCarrier kCarriers[] = {RingCarrier::automatic, RingCarrier::keys, RingCarrier::heads,
                                       RingCarrier::queries};
  const int carrier = from.carrier;
  if (carrier < WEFT_RING_BY_AUTO || carrier > WEFT_RING_BY_QUERIES)
    return user_error(fmt::format("weft_ring_options::carrier is {}", carrier));
  RingOptions out{.layout = kLayouts[layout], .carrier = kCarriers[carrier]};
  if (from.timeout_ms != 0) out.timeout_ms = from.timeout_ms;
  out.memory = from.memory;
  return out;
}

/// Everything but inputs.
Result<RingArgs> args_of(const weft_ring_args& from) {
  RingArgs out;
  WEFT_CHECK(take_common(from, out));
  return out;
}

/// A messenger of the caller's functions.
class CMessenger final : public Messenger {
 public:
  explicit CMessenger(const weft_messenger& of) : of_(of) {}
  ~CMessenger() override {
    if (of_.end != nullptr) of_.end(of_.context);
  }

  int rank() const override { return of_.rank; }
  int ranks() const override { return of_.ranks; }

  Result<std::uint64_t> send(int peer, int tag, const void* data, std::size_t bytes) override {
    std::uint64_t request = 0;
    const char* const wrong = of_.send(of_.context, peer, tag, data, bytes, &request);
    return begun(wrong, request);
  }
  Result<std::uint64_t> receive(int peer, int tag, void* data, std::size_t bytes) override {
    std::uint64_t request = 0;
    const char* const wrong = of_.receive(of_.context, peer, tag, data, bytes, &request);
    return begun(wrong, request);
  }
  Result<std::optional<std::size_t>> test(std::uint64_t request) override {
    std::int32_t is_done = 0;
    std::size_t bytes = 0;
    if (const char* const wrong = of_.test(of_.context, request, &is_done, &bytes); wrong != nullptr)
      return environment_error(wrong);
    return is_done != 0 ? std::optional(bytes) : std::nullopt;
  }
  void cancel(std::uint64_t request) noexcept override { of_.cancel(of_.context, request); }

 private:
  static Result<std::uint64_t> begun(const char* wrong, std::uint64_t request) {
    if (wrong != nullptr) return environment_error(wrong);
    if (request == 0) return environment_error("the caller's function began a message and named it 0");
    return request;
  }

  const weft_messenger of_;
};

bool has_rank(const weft_ring_plan* plan, std::int32_t rank) {
  return plan != nullptr && rank >= 0 && rank < plan->plan->summary().ranks;
}

}  // namespace
}  // namespace weft::c_api

using namespace weft;         // NOLINT(google-build-using-namespace): the functions below have no namespace
using namespace weft::c_api;  // NOLINT(google-build-using-namespace)

extern "C" {

weft_error_code weft_error_code_of(const weft_error* error) {
  return error == nullptr ? WEFT_ERROR_OTHER : error->code;
}

weft_error* weft_local_transports(std::int32_t ranks, weft_transport** out) {
  return guarded(nullptr, [&]() -> Status {
    if (out == nullptr) return missing("the place for the transports");
    WEFT_TRY(auto made, local_transports(ranks));
    std::vector<std::unique_ptr<weft_transport>> handles;
    for (auto& transport : made) {
      handles.push_back(std::make_unique<weft_transport>());
      handles.back()->transport = std::move(transport);
    }
    for (std::size_t rank = 0; rank < handles.size(); ++rank) out[rank] = handles[rank].release();
    return done;
  });
}

weft_error* weft_mpi_transport(weft_transport** out) {
  return guarded(nullptr, [&]() -> Status {
    if (out == nullptr) return missing("the place for the transport");
    *out = nullptr;
    auto handle = std::make_unique<weft_transport>();
    WEFT_TRY(handle->transport, mpi_transport());
    *out = handle.release();
    return done;
  });
}

weft_error* weft_nccl_transport(weft_transport* control, const weft_nccl_options* options, weft_transport** out) {
  const std::unique_ptr<weft_transport> taken(control);
  return guarded(nullptr, [&]() -> Status {
    if (out == nullptr) return missing("the place for the transport");
    *out = nullptr;
    if (control == nullptr) return missing("the transport beside it");
    auto from = weft_nccl_options_init();
    if (options != nullptr) {
      WEFT_TRY(from, read_versioned(options, "weft_nccl_options", weft_nccl_options_init()));
    }
    auto handle = std::make_unique<weft_transport>();
    WEFT_TRY(handle->transport,
             nccl_transport(std::move(taken->transport), {.device = from.device, .timeout_ms = from.timeout_ms}));
    *out = handle.release();
    return done;
  });
}

void weft_end_mpi(std::int32_t status) { end_mpi(status); }

weft_error* weft_message_transport(const weft_messenger* messenger, weft_transport** out) {
  return guarded(nullptr, [&]() -> Status {
    if (out == nullptr) return missing("the place for the transport");
    *out = nullptr;
    if (messenger == nullptr) return missing("the messenger");
    WEFT_TRY(const auto from, read_versioned(messenger, "weft_messenger", weft_messenger_init()));
    if (from.send == nullptr || from.receive == nullptr || from.test == nullptr || from.cancel == nullptr)
      return missing("send, receive, test or cancel of the messenger");
    if (from.ranks < 1 || from.rank < 0 || from.rank >= from.ranks)
      return user_error(fmt::format("rank {} of {} is no rank of a ring", from.rank, from.ranks));
    auto handle = std::make_unique<weft_transport>();
    WEFT_TRY(handle->transport, message_transport(std::make_unique<CMessenger>(from)));
    *out = handle.release();
    return done;
  });
}

std::int32_t weft_transport_rank(const weft_transport* transport) {
  return transport == nullptr ? 0 : transport->transport->rank();
}
std::int32_t weft_transport_ranks(const weft_transport* transport) {
  return transport == nullptr ? 0 : transport->transport->ranks();
}
void weft_transport_free(weft_transport* transport) { delete transport; }

weft_error* weft_ring_join(weft_transport* transport, const weft_ring_options* options, weft_ring** out) {
  const std::unique_ptr<weft_transport> taken(transport);
  return guarded(nullptr, [&]() -> Status {
    if (out == nullptr) return missing("the place for the ring");
    *out = nullptr;
    if (transport == nullptr) return missing("the transport");
    WEFT_TRY(const auto made, options_of(options));
    auto handle = std::make_unique<weft_ring>();
    WEFT_TRY(handle->ring, Ring::join(std::move(taken->transport), made));
    *out = handle.release();
    return done;
  });
}

void weft_ring_destroy(weft_ring* ring) { delete ring; }

weft_error* weft_ring_barrier(weft_ring* ring) {
  return guarded(nullptr, [&]() -> Status { return ring == nullptr ? missing("the ring") : ring->ring->barrier(); });
}

weft_error* weft_ring_plan_create(weft_ring* ring, const weft_kernel* kernel, weft_ring_shape shape,
                                  const weft_named_tensor* inputs, size_t input_count, weft_ring_plan** out) {
  return guarded(nullptr, [&]() -> Status {
    if (out == nullptr) return missing("the place for the plan");
    *out = nullptr;
    if (ring == nullptr) return missing("the ring");
    if (kernel == nullptr) return missing("the kernel");
    WEFT_TRY(const auto named, named_tensors<NamedInput>(inputs, input_count, "inputs"));
    auto handle = std::make_unique<weft_ring_plan>();
    WEFT_TRY(
        handle->plan,
        ring->ring->plan(
            kernel->kernel,
            {.batch = shape.batch, .tokens = shape.tokens, .heads = shape.heads, .kv_heads = shape.kv_heads}, named));
    *out = handle.release();
    return done;
  });
}

void weft_ring_plan_destroy(weft_ring_plan* plan) { delete plan; }

size_t weft_ring_plan_run_count(const weft_ring_plan* plan, std::int32_t rank) {
  return has_rank(plan, rank) ? plan->plan->owned(rank).size() : 0;
}

weft_token_run weft_ring_plan_run(const weft_ring_plan* plan, std::int32_t rank, size_t number) {
  if (number >= weft_ring_plan_run_count(plan, rank)) return {0, 0, 0};
  const auto& run = plan->plan->owned(rank)[number];
  return {run.first, run.count, run.stride};
}

const char* weft_ring_plan_bits(const weft_ring_plan* plan) {
  return plan == nullptr ? "" : plan->plan->summary().bits.c_str();
}

const char* weft_ring_plan_carrier(const weft_ring_plan* plan) {
  return plan == nullptr ? "" : plan->plan->summary().carrier.c_str();
}

const char* weft_ring_plan_layout(const weft_ring_plan* plan) {
  return plan == nullptr ? "" : plan->plan->summary().layout.c_str();
}

weft_ring_share weft_ring_plan_share(const weft_ring_plan* plan) {
  if (plan == nullptr) return {};
  const auto& share = plan->plan->share();
  return {.tokens = share.tokens,
          .messages = share.messages,
          .pairs = share.pairs,
          .needed_bytes = share.needed_bytes,
          .received_bytes = share.received_bytes,
          .sent_bytes = share.sent_bytes,
          .wait_ms = share.wait_ms};
}

weft_error* weft_ring_run(weft_ring_plan* plan, const weft_ring_args* args) {
  return guarded(nullptr, [&]() -> Status {
    if (plan == nullptr) return missing("the plan");
    if (args == nullptr) return missing("the arguments");
    WEFT_TRY(const auto from, read_versioned(args, "weft_ring_args", weft_ring_args_init()));
    WEFT_TRY(const auto inputs, named_tensors<NamedInput>(from.inputs, from.input_count, "weft_ring_args::inputs"));
    WEFT_TRY(const auto d_inputs,
             named_tensors<NamedOutput>(from.d_inputs, from.d_input_count, "weft_ring_args::d_inputs"));
    WEFT_TRY(auto made, args_of(from));
    made.inputs = inputs;
    made.d_inputs = d_inputs;
    return plan->plan->run(made);
  });
}

weft_error* weft_ring_gather(weft_ring_plan* plan, weft_tensor rows, std::int32_t axis, weft_tensor whole) {
  return guarded(nullptr, [&]() -> Status {
    if (plan == nullptr) return missing("the plan");
    WEFT_TRY(const auto from, tensor_of<TensorView>(rows, "rows"));
    WEFT_TRY(const auto to, tensor_of<OutputView>(whole, "whole"));
    return plan->plan->gather(from, axis, to);
  });
}

}  // extern "C"
