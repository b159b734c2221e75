#include "ring_fixture.h"

/// Messages travel over the host.
namespace weft::test {
namespace {

TEST_F(CudaRing, HasTheBitsOfOneLaunchAndGivesEverythingBack) {
  Problem problem(kBatch, kTokens, kHeads, kDim);
  {
    const Engine engine(options());
    const auto kernel = compile(engine, "pattern p { branch window(20, 3); }", f32());
    emulate(kernel);
    run_whole(kernel, problem);
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
  free_what_is_alive();
}

}  // namespace
}  // namespace weft::test
