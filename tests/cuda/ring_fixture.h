#pragma once

#include "engine_fixture.h"

#include <weft/ring.h>

#include <cstring>
#include <functional>
#include <thread>

namespace weft::test {

inline constexpr std::int64_t kBatch = 2, kTokens = 60, kHeads = 2, kDim = 32;
inline constexpr int kRanks = 2;

/// Ranks whose rows lie in a GPU's memory.
class CudaRing : public CudaEngine {
 protected:
  /// What one rank does, up to O of all ranks in `whole` on rank 0.
  static Status run_rank(const Kernel& kernel, const Problem& problem, std::unique_ptr<Transport> transport,
                         RingCarrier carrier, std::vector<float>& whole, std::int64_t timeout_ms = 20'000,
                         RingLayout layout = RingLayout::zigzag) {
    const auto device = device_of(kernel);
    WEFT_TRY(const auto ring,
             Ring::join(std::move(transport), {.layout = layout, .carrier = carrier, .timeout_ms = timeout_ms}));
    WEFT_TRY(const auto plan, ring->plan(kernel, {problem.batch, problem.tokens, kHeads, kHeads}));
    const auto own = [&](const std::vector<float>& all) {
      std::vector<float> mine;
      for (std::int64_t b = 0; b < problem.batch; ++b) {
        for (const auto& run : plan->owned(ring->rank())) {
          const auto first = all.begin() + (b * problem.tokens + run.first) * kHeads * kDim;
          mine.insert(mine.end(), first, first + run.count * kHeads * kDim);
        }
      }
      return cuda::Buffer::upload(device, mine.data(), mine.size() * sizeof(float));
    };
    const auto rows = plan->share().tokens;
    WEFT_TRY(const auto q, own(problem.q));
    WEFT_TRY(const auto k, own(problem.k));
    WEFT_TRY(const auto v, own(problem.v));
    WEFT_TRY(
        const auto out,
        cuda::Buffer::allocate(device, static_cast<std::size_t>(problem.batch * rows * kHeads * kDim) * sizeof(float)));
    const auto view = [&](const cuda::Buffer& of) {
      return dense_view(of.data(), DType::f32, {problem.batch, rows, kHeads, kDim});
    };
    WEFT_CHECK(plan->run({.q = view(q),
                          .k = view(k),
                          .v = view(v),
                          .out = dense_output(out.data(), DType::f32, {problem.batch, rows, kHeads, kDim})}));
    return plan->gather(view(out), 1,
                        dense_output(whole.data(), DType::f32, {problem.batch, problem.tokens, kHeads, kDim}));
  }

  /// What each rank's thread says.
  static std::vector<Status> on_ranks(const std::function<Status(std::size_t rank, std::unique_ptr<Transport>)>& run,
                                      int count = kRanks) {
    auto transports = local_transports(count).value();
    std::vector<Status> said(transports.size(), done);
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < said.size(); ++rank)
      ranks.emplace_back([&, rank] { said[rank] = run(rank, std::move(transports[rank])); });
    for (auto& rank : ranks) rank.join();
    return said;
  }

  static std::vector<Status> run_ring(const Kernel& kernel, const Problem& problem, RingCarrier carrier,
                                      std::vector<float>& whole) {
    std::vector<float> unused(whole.size());
    return on_ranks([&](std::size_t rank, std::unique_ptr<Transport> transport) {
      return run_rank(kernel, problem, std::move(transport), carrier, rank == 0 ? whole : unused);
    });
  }

  /// What one launch leaves.
  void run_whole(const Kernel& kernel, Problem& problem) {
    const OnDevice whole(device_of(kernel), problem);
    const auto status = kernel.run(whole.args(problem));
    ASSERT_TRUE(status.ok()) << status.error().message;
    whole.fetch(problem);
  }
};

}  // namespace weft::test
