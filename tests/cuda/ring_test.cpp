#include "engine_fixture.h"

#include <weft/ring.h>

#include <cstring>
#include <thread>

/// Ranks whose rows lie in a GPU's memory. Their messages travel over the host.
namespace weft::test {
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 60, kHeads = 2, kDim = 32;
constexpr int kRanks = 2;

class CudaRing : public CudaEngine {
 protected:
  /// What one rank does, up to O of all ranks in `whole` on rank 0.
  static Status run_rank(const Kernel& kernel, const Problem& problem, std::unique_ptr<Transport> transport,
                         RingCarrier carrier, std::vector<float>& whole) {
    const auto device = device_of(kernel);
    WEFT_TRY(const auto ring, Ring::join(std::move(transport),
                                         {.layout = RingLayout::zigzag, .carrier = carrier, .timeout_ms = 20'000}));
    WEFT_TRY(const auto plan, ring->plan(kernel, {kBatch, kTokens, kHeads, kHeads}));
    const auto own = [&](const std::vector<float>& all) {
      std::vector<float> mine;
      for (std::int64_t b = 0; b < kBatch; ++b) {
        for (const auto& run : plan->owned(ring->rank())) {
          const auto first = all.begin() + (b * kTokens + run.first) * kHeads * kDim;
          mine.insert(mine.end(), first, first + run.count * kHeads * kDim);
        }
      }
      return cuda::Buffer::upload(device, mine.data(), mine.size() * sizeof(float));
    };
    const auto rows = plan->share().tokens;
    WEFT_TRY(const auto q, own(problem.q));
    WEFT_TRY(const auto k, own(problem.k));
    WEFT_TRY(const auto v, own(problem.v));
    WEFT_TRY(const auto out,
             cuda::Buffer::allocate(device, static_cast<std::size_t>(kBatch * rows * kHeads * kDim) * sizeof(float)));
    const auto view = [&](const cuda::Buffer& of) {
      return dense_view(of.data(), DType::f32, {kBatch, rows, kHeads, kDim});
    };
    WEFT_CHECK(plan->run({.q = view(q),
                          .k = view(k),
                          .v = view(v),
                          .out = dense_output(out.data(), DType::f32, {kBatch, rows, kHeads, kDim})}));
    return plan->gather(view(out), 1, dense_output(whole.data(), DType::f32, {kBatch, kTokens, kHeads, kDim}));
  }

  std::vector<Status> run_ring(const Kernel& kernel, const Problem& problem, RingCarrier carrier,
                               std::vector<float>& whole) {
    auto transports = local_transports(kRanks).value();
    std::vector<Status> said(kRanks, done);
    std::vector<std::thread> ranks;
    std::vector<float> unused(whole.size());
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] {
        said[rank] = run_rank(kernel, problem, std::move(transports[rank]), carrier, rank == 0 ? whole : unused);
      });
    }
    for (auto& rank : ranks) rank.join();
    return said;
  }
};

TEST_F(CudaRing, HasTheBitsOfOneLaunchAndGivesEverythingBack) {
  Problem problem(kBatch, kTokens, kHeads, kDim);
  {
    const Engine engine(options());
    const auto kernel = compile(engine, "pattern p { branch window(20, 3); }", f32());
    emulate(kernel);
    {
      const OnDevice whole(device_of(kernel), problem);
      ASSERT_TRUE(kernel.run(whole.args(problem)).ok());
      whole.fetch(problem);
    }
    for (const auto carrier : {RingCarrier::keys, RingCarrier::heads}) {
      std::vector<float> of_ring(problem.out.size(), -1);
      for (const auto& status : run_ring(kernel, problem, carrier, of_ring))
        ASSERT_TRUE(status.ok()) << status.error().message;
      EXPECT_EQ(std::memcmp(of_ring.data(), problem.out.data(), of_ring.size() * sizeof(float)), 0);
    }
  }
  driver().on_launch = nullptr;
  expect_nothing_alive();
}

/// Whatever call of the driver fails, no rank waits for ever, and what went wrong is said.
TEST_F(CudaRing, AFailureEndsAllRanks) {
  const Problem problem(kBatch, kTokens, kHeads, kDim);
  const Engine engine(options());
  const auto kernel = compile(engine, "pattern p { branch window(20, 3); }", f32());
  std::vector<float> of_ring(problem.out.size());
  ASSERT_TRUE(run_ring(kernel, problem, RingCarrier::keys, of_ring)[0].ok());
  int failed = 0, call = 0;
  for (bool reached = true; reached; call += 7) {
    driver().forget();
    driver().fail_at = call;
    const auto said = run_ring(kernel, problem, call % 2 == 0 ? RingCarrier::keys : RingCarrier::heads, of_ring);
    reached = !driver().failed.empty();
    driver().fail_at = -1;
    if (!reached || (said[0].ok() && said[1].ok())) continue;  // what frees may fail
    ++failed;
    // A rank that had everything may have ended before.
    for (const auto& status : said) {
      if (!status.ok()) {
        EXPECT_EQ(status.error().kind, ErrorKind::environment) << status.error().message;
      }
    }
  }
  EXPECT_GT(failed, 10) << call;
}

}  // namespace
}  // namespace weft::test
