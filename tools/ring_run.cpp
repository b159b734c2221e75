#include "tools/ring_run.h"

#include "runtime/cuda/memory.h"
#include "runtime/engine/cuda_executor.h"
#include "runtime/ring/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <type_traits>

namespace weft::tools {

namespace {

using Clock = std::chrono::steady_clock;
using RowBytes = std::vector<std::byte>;

/// A rank's rows of a tensor [B, n, H, d], densely.
RowBytes rows_of(const TensorView& whole, const std::vector<TokenRun>& own, std::int64_t rows, TensorView& mine) {
  const auto element = size_of(whole.dtype);
  const auto dim = whole.extent[3];
  RowBytes out(static_cast<std::size_t>(whole.extent[0] * rows * whole.extent[2] * dim) * element);
  mine = dense_view(out.data(), whole.dtype, {whole.extent[0], rows, whole.extent[2], dim});
  auto* to = out.data();
  for (std::int64_t b = 0; b < whole.extent[0]; ++b) {
    for (const auto& run : own) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        for (std::int64_t h = 0; h < whole.extent[2]; ++h, to += static_cast<std::size_t>(dim) * element) {
          const auto at = b * whole.stride[0] + (run.first + i * run.stride) * whole.stride[1] + h * whole.stride[2];
          std::memcpy(to, static_cast<const std::byte*>(whole.data) + static_cast<std::size_t>(at) * element,
                      static_cast<std::size_t>(dim) * element);
        }
      }
    }
  }
  return out;
}

RingLayout to_public(ir::RingLayout layout) {
  switch (layout) {
    case ir::RingLayout::contiguous:
      return RingLayout::contiguous;
    case ir::RingLayout::zigzag:
      return RingLayout::zigzag;
    case ir::RingLayout::striped:
      return RingLayout::striped;
    case ir::RingLayout::automatic:
      break;
  }
  return RingLayout::automatic;
}

RingOptions options_of(const RingOf& ring, std::int64_t timeout_ms) {
  constexpr RingCarrier kCarriers[] = {RingCarrier::automatic, RingCarrier::keys, RingCarrier::heads,
                                       RingCarrier::queries};
  return {.layout = to_public(ring.layout),
          .carrier = kCarriers[static_cast<int>(ring.carrier)],
          .memory = ring.memory,
          .timeout_ms = timeout_ms};
}

/// From a barrier to a barrier.
Result<double> timed(Ring& ring, RingPlan& plan, const RingArgs& args) {
  WEFT_CHECK(ring.barrier());
  const auto start = Clock::now();
  WEFT_CHECK(plan.run(args));
  WEFT_CHECK(ring.barrier());
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Where the kernel is a GPU's, copies there of what a rank has on the host, which views then name; else nothing.
class Copies {
 public:
  explicit Copies(const Kernel& kernel) : device_(device_of(kernel)) {}

  template <typename Pointer>
  Status place(View<Pointer>& view) {
    if (view.data == nullptr || device_ == nullptr) return done;
    const auto bytes = numbers_of(view) * size_of(view.dtype);
    WEFT_TRY(auto buffer, cuda::Buffer::upload(device_, view.data, bytes));
    if constexpr (!std::is_const_v<std::remove_pointer_t<Pointer>>)
      homes_.push_back({view.data, buffers_.size(), bytes});
    view.data = buffer.data();
    buffers_.push_back(std::move(buffer));
    return done;
  }
  template <typename Named>
  Status place(std::vector<Named>& all) {
    for (auto& one : all) WEFT_CHECK(place(one.view));
    return done;
  }
  /// What can be written, to where it was on the host.
  Status fetch() const {
    for (const auto& home : homes_) WEFT_CHECK(buffers_[home.buffer].copy_out(home.data, home.bytes));
    return done;
  }

 private:
  struct Home {
    void* data;
    std::size_t buffer, bytes;
  };
  std::shared_ptr<const cuda::Device> device_;
  std::vector<cuda::Buffer> buffers_;
  std::vector<Home> homes_;
};

/// The backward pass of what the forward left in `args`; gradients come together on rank 0.
Status run_backward(Ring& ring, const RingPasses& passes, const RingShape& shape, RingArgs args, RingRan& ran) {
  const auto& whole = passes.gradients;
  WEFT_TRY(const auto plan, ring.plan(*passes.backward, shape, whole.inputs));
  const auto& own = plan->owned(ring.rank());
  const std::int64_t rows = plan->share().tokens;
  const RowBytes d_out = rows_of(whole.d_out, own, rows, args.d_out);
  std::array<RowBytes, 3> made;
  const std::array to = {&args.dq, &args.dk, &args.dv};
  const std::array from = {&whole.dq, &whole.dk, &whole.dv};
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (from[i]->data == nullptr) continue;
    const auto& extent = from[i]->extent;
    made[i].resize(static_cast<std::size_t>(extent[0] * rows * extent[2] * extent[3]) * size_of(from[i]->dtype));
    *to[i] = dense_output(made[i].data(), from[i]->dtype, {extent[0], rows, extent[2], extent[3]});
  }
  // All ranks write the whole of them; where ranks are threads, rank 0's is what is wanted.
  std::vector<RowBytes> of_inputs;
  std::vector<NamedOutput> d_inputs(whole.d_inputs.begin(), whole.d_inputs.end());
  for (auto& wanted : d_inputs) {
    if (ring.rank() == 0) break;
    wanted.view.data = of_inputs.emplace_back(numbers_of(wanted.view) * size_of(wanted.view.dtype)).data();
  }
  Copies copies(*passes.backward), of_sums(*passes.backward);
  WEFT_CHECK(copies.place(args.d_out));
  for (auto* const view : to) WEFT_CHECK(copies.place(*view));
  WEFT_CHECK(of_sums.place(d_inputs));
  args.d_inputs = d_inputs;
  WEFT_TRY(ran.backward_ms, timed(ring, *plan, args));
  WEFT_TRY(ran.backward_shares, plan->shares());
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (from[i]->data != nullptr) WEFT_CHECK(plan->gather(operand(*to[i]), 1, *from[i]));
  }
  return of_sums.fetch();
}

/// What one rank does, from joining to its rows of the outputs, which come together on rank 0.
Result<RingRan> run_rank(const RingPasses& passes, std::unique_ptr<Transport> transport, const RingOptions& options,
                         int threads) {
  const auto& whole = passes.whole;
  const int rank = transport->rank();
  WEFT_TRY(const auto ring, Ring::join(std::move(transport), options));
  const RingShape shape{.batch = whole.q.extent[0],
                        .tokens = whole.q.extent[1],
                        .heads = whole.q.extent[2],
                        .kv_heads = whole.k.extent[2]};
  WEFT_TRY(const auto plan, ring->plan(passes.forward, shape, whole.inputs));
  const auto& own = plan->owned(rank);
  const std::int64_t rows = plan->share().tokens;
  RingArgs args{.inputs = whole.inputs, .dropout_seed = whole.dropout_seed, .threads = threads};
  const RowBytes q = rows_of(whole.q, own, rows, args.q), k = rows_of(whole.k, own, rows, args.k),
                 v = rows_of(whole.v, own, rows, args.v);
  const auto dim = whole.out.extent[3];
  RowBytes out(static_cast<std::size_t>(shape.batch * rows * shape.heads * dim) * size_of(whole.out.dtype));
  args.out = dense_output(out.data(), whole.out.dtype, {shape.batch, rows, shape.heads, dim});
  const auto branches = whole.branch_lse.data != nullptr ? whole.branch_lse.extent[0] : 0;
  const auto numbers = static_cast<std::size_t>(shape.batch * rows * shape.heads);
  std::vector<float> lse(numbers), branch_lse(static_cast<std::size_t>(branches) * numbers);
  if (whole.lse.data != nullptr) args.lse = dense_output(lse.data(), DType::f32, {shape.batch, shape.heads, rows});
  if (branches > 0)
    args.branch_lse = dense_output(branch_lse.data(), DType::f32, {branches, shape.batch, shape.heads, rows});
  RingRan ran{.rank = rank, .summary = plan->summary()};
  Copies copies(passes.forward);
  std::vector<NamedInput> inputs(whole.inputs.begin(), whole.inputs.end());
  WEFT_CHECK(copies.place(inputs));
  args.inputs = inputs;
  for (auto* const view : {&args.q, &args.k, &args.v}) WEFT_CHECK(copies.place(*view));
  for (auto* const view : {&args.out, &args.lse, &args.branch_lse}) WEFT_CHECK(copies.place(*view));
  WEFT_TRY(ran.ms, timed(*ring, *plan, args));
  WEFT_TRY(ran.shares, plan->shares());
  WEFT_CHECK(plan->gather(operand(args.out), 1, whole.out));
  // By the whole: a rank without rows has no data, and takes part.
  if (whole.lse.data != nullptr) WEFT_CHECK(plan->gather(operand(args.lse), 2, whole.lse));
  for (std::int64_t branch = 0; branch < branches; ++branch)
    WEFT_CHECK(plan->gather(operand(of_branch(args.branch_lse, branch)), 2, of_branch(whole.branch_lse, branch)));
  if (passes.backward != nullptr) WEFT_CHECK(run_backward(*ring, passes, shape, args, ran));
  return ran;
}

/// Rank 0's, or the error that says what went wrong, and not who suffered from it.
Result<RingRan> result_of(std::vector<Result<RingRan>>& outcomes) {
  const Error* worst = nullptr;
  for (const auto& outcome : outcomes) {
    if (outcome.ok()) continue;
    if (worst == nullptr || (worst->code == ErrorCode::ring_lost && outcome.error().code != ErrorCode::ring_lost))
      worst = &outcome.error();
  }
  if (worst != nullptr) return *worst;
  return std::move(outcomes[0]);
}

Status check_square(const RunArgs& whole) {
  if (whole.q.extent[1] == whole.k.extent[1]) return done;
  return user_error(fmt::format("a ring splits tokens that are queries and keys; here are {} queries and {} keys",
                                whole.q.extent[1], whole.k.extent[1]));
}

}  // namespace

std::string wrong_with_ring(const Options& options) {
  if (options.ring.empty()) return {};
  for (const auto& [given, name] : {std::pair{!options.rows.empty(), "--rows"},
                                    {!options.offset.empty(), "--offset"},
                                    {!options.lists.empty(), "--lists"},
                                    {options.prepare, "--prepare"}}) {
    if (given) return fmt::format("--ring and {} do not go together in this version", name);
  }
  return {};
}

Result<RingRan> run_on_ring(const RingPasses& passes, const RingOf& ring, std::int64_t timeout_ms) {
  const auto& whole = passes.whole;
  WEFT_CHECK(check_square(whole));
  const auto count = static_cast<std::size_t>(ring.ranks);
  WEFT_TRY(auto transports, local_transports(static_cast<int>(ring.ranks)));
  const auto options = options_of(ring, timeout_ms);
  // Ranks share the cores.
  const auto cores = whole.threads > 0 ? whole.threads : static_cast<int>(std::thread::hardware_concurrency());
  const int threads = std::max(1, cores / static_cast<int>(ring.ranks));
  std::vector<Result<RingRan>> outcomes(count, Result<RingRan>(RingRan()));
  std::vector<std::thread> ranks;
  try {
    for (std::size_t rank = 0; rank < count; ++rank) {
      ranks.emplace_back(
          [&, rank] { outcomes[rank] = run_rank(passes, std::move(transports[rank]), options, threads); });
    }
  } catch (const std::system_error&) {
    // Those that began see that the others have left.
    for (auto rank = ranks.size(); rank < count; ++rank) transports[rank].reset();
    for (auto& rank : ranks) rank.join();
    return environment_error(fmt::format("--ring {}: there are no threads for so many ranks", ring.ranks));
  }
  for (auto& rank : ranks) rank.join();
  return result_of(outcomes);
}

Result<RingRan> run_in_ring(const RingPasses& passes, const RingOf& ring, std::int64_t timeout_ms,
                            std::unique_ptr<Transport> transport) {
  WEFT_CHECK(check_square(passes.whole));
  const char* const name = transport->device() ? "nccl" : "mpi";
  WEFT_TRY(auto ran, run_rank(passes, std::move(transport), options_of(ring, timeout_ms), passes.whole.threads));
  ran.transport = name;
  return ran;
}

}  // namespace weft::tools
