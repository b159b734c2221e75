#include "tools/ring_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

namespace weft::tools {

namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

/// Calls copy(element of the whole, element of the rank's rows) for all rows of a rank, which lie in `axis` of tensors
/// that have `axis` + 1 axes in front of a contiguous last one, or end with the rows.
template <typename Pointer, typename Copy>
void each_row(const View<Pointer>& whole, const View<Pointer>& mine, const std::vector<TokenRun>& own, std::size_t axis,
              const Copy& copy) {
  const std::size_t other = axis == 1 ? 2 : 1;
  for (std::int64_t b = 0; b < mine.extent[0]; ++b) {
    for (std::int64_t h = 0; h < mine.extent[other]; ++h) {
      std::int64_t local = 0;
      for (const auto& run : own) {
        for (std::int64_t i = 0; i < run.count; ++i, ++local) {
          copy(b * whole.stride[0] + h * whole.stride[other] + (run.first + i * run.stride) * whole.stride[axis],
               b * mine.stride[0] + h * mine.stride[other] + local * mine.stride[axis]);
        }
      }
    }
  }
}

/// A rank's rows of a tensor [B, n, H, d].
Bytes gather(const TensorView& whole, const std::vector<TokenRun>& own, std::int64_t rows, TensorView& mine) {
  const auto element = size_of(whole.dtype);
  const auto dim = whole.extent[3];
  Bytes out(static_cast<std::size_t>(whole.extent[0] * rows * whole.extent[2] * dim) * element);
  mine = dense_view(out.data(), whole.dtype, {whole.extent[0], rows, whole.extent[2], dim});
  const auto* const from = static_cast<const std::byte*>(whole.data);
  each_row(whole, mine, own, 1, [&](std::int64_t there, std::int64_t here) {
    std::memcpy(out.data() + static_cast<std::size_t>(here) * element, from + static_cast<std::size_t>(there) * element,
                static_cast<std::size_t>(dim) * element);
  });
  return out;
}

void scatter(const OutputView& mine, const std::vector<TokenRun>& own, std::size_t axis, std::int64_t elements,
             const OutputView& whole) {
  const auto element = size_of(whole.dtype);
  auto* const to = static_cast<std::byte*>(whole.data);
  const auto* const from = static_cast<const std::byte*>(mine.data);
  each_row(whole, mine, own, axis, [&](std::int64_t there, std::int64_t here) {
    std::memcpy(to + static_cast<std::size_t>(there) * element, from + static_cast<std::size_t>(here) * element,
                static_cast<std::size_t>(elements) * element);
  });
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

/// What one rank does, from joining to its rows of the outputs.
Status run_rank(const Kernel& kernel, const RunArgs& whole, std::unique_ptr<Transport> transport,
                const RingOptions& options, int threads, RingRan& ran) {
  const int rank = transport->rank();
  WEFT_TRY(const auto ring, Ring::join(std::move(transport), options));
  const RingShape shape{.batch = whole.q.extent[0],
                        .tokens = whole.q.extent[1],
                        .heads = whole.q.extent[2],
                        .kv_heads = whole.k.extent[2]};
  WEFT_TRY(const auto plan, ring->plan(kernel, shape, whole.inputs));
  const auto& own = plan->owned(rank);
  const std::int64_t rows = plan->share().tokens;
  RingArgs args{.inputs = whole.inputs, .dropout_seed = whole.dropout_seed, .threads = threads};
  const Bytes q = gather(whole.q, own, rows, args.q), k = gather(whole.k, own, rows, args.k),
              v = gather(whole.v, own, rows, args.v);
  const auto dim = whole.out.extent[3];
  Bytes out(static_cast<std::size_t>(shape.batch * rows * shape.heads * dim) * size_of(whole.out.dtype));
  args.out = dense_output(out.data(), whole.out.dtype, {shape.batch, rows, shape.heads, dim});
  Bytes lse(static_cast<std::size_t>(shape.batch * rows * shape.heads) * sizeof(float));
  if (whole.lse.data != nullptr) args.lse = dense_output(lse.data(), DType::f32, {shape.batch, shape.heads, rows});
  WEFT_CHECK(ring->barrier());
  const auto start = Clock::now();
  WEFT_CHECK(plan->run(args));
  WEFT_CHECK(ring->barrier());
  if (rank == 0) {
    ran.ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    ran.summary = plan->summary();
  }
  ran.shares[static_cast<std::size_t>(rank)] = plan->share();
  scatter(args.out, own, 1, dim, whole.out);
  if (args.lse.data != nullptr) scatter(args.lse, own, 2, 1, whole.lse);
  return done;
}

/// The one that says what went wrong, and not who suffered from it.
Status worst_of(const std::vector<Status>& statuses) {
  const Status* worst = nullptr;
  for (const auto& status : statuses) {
    if (status.ok()) continue;
    if (worst == nullptr ||
        (worst->error().code == ErrorCode::ring_lost && status.error().code != ErrorCode::ring_lost))
      worst = &status;
  }
  return worst == nullptr ? Status(done) : *worst;
}

}  // namespace

std::string wrong_with_ring(const Options& options) {
  if (options.ring.empty()) return {};
  for (const auto& [given, name] : {std::pair{!options.grad.empty(), "--grad"},
                                    {!options.rows.empty(), "--rows"},
                                    {!options.offset.empty(), "--offset"},
                                    {!options.lists.empty(), "--lists"},
                                    {options.lse_per_branch, "--lse-per-branch"},
                                    {options.prepare, "--prepare"}}) {
    if (given) return fmt::format("--ring and {} do not go together in this version", name);
  }
  return {};
}

Result<RingRan> run_on_ring(const Kernel& kernel, const RunArgs& whole, const RingOf& ring, std::int64_t timeout_ms) {
  if (whole.q.extent[1] != whole.k.extent[1]) {
    return user_error(fmt::format("a ring splits tokens that are queries and keys; here are {} queries and {} keys",
                                  whole.q.extent[1], whole.k.extent[1]));
  }
  const auto count = static_cast<std::size_t>(ring.ranks);
  WEFT_TRY(auto transports, local_transports(static_cast<int>(ring.ranks)));
  const RingOptions options{.layout = to_public(ring.layout), .timeout_ms = timeout_ms};
  // Ranks share the cores.
  const auto cores = whole.threads > 0 ? whole.threads : static_cast<int>(std::thread::hardware_concurrency());
  const int threads = std::max(1, cores / static_cast<int>(ring.ranks));
  RingRan ran;
  ran.shares.resize(count);
  std::vector<Status> statuses(count, Status(done));
  std::vector<std::thread> ranks;
  try {
    for (std::size_t rank = 0; rank < count; ++rank) {
      ranks.emplace_back(
          [&, rank] { statuses[rank] = run_rank(kernel, whole, std::move(transports[rank]), options, threads, ran); });
    }
  } catch (const std::system_error&) {
    // Those that began see that the others have left.
    for (auto rank = ranks.size(); rank < count; ++rank) transports[rank].reset();
    for (auto& rank : ranks) rank.join();
    return environment_error(fmt::format("--ring {}: there are no threads for so many ranks", ring.ranks));
  }
  for (auto& rank : ranks) rank.join();
  WEFT_CHECK(worst_of(statuses));
  return ran;
}

}  // namespace weft::tools
