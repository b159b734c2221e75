#include "tests/ring/ring_runner.h"
#include "tests/ring/storm.h"
#include "tests/support/random_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

/// Transports that are late, out of order or broken, and ranks that stop, leave or disagree: results are right, or
/// every rank ends with an error that says why.
namespace weft::test {
namespace {

constexpr std::int64_t kTimeout = 400;
/// Where nobody is to be lost, however slow the machine is.
constexpr std::int64_t kPatience = 20'000;

Program windows() {
  return {.text = "pattern p { branch window(30, 5); }",
          .pattern = "p",
          .shape = {.batch = 1, .n_q = 200, .n_k = 200, .heads = 2, .kv_heads = 1, .d = 8, .d_v = 8},
          .seed = 3};
}

class Failures : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(runner_.run_whole().ok()); }

  std::vector<RankOutcome> run(const Storm& storm, std::int64_t timeout_ms = kTimeout) {
    const auto start = std::chrono::steady_clock::now();
    auto outcomes =
        runner_.run_ring(stormy_transports(4, storm), {.layout = RingLayout::zigzag, .timeout_ms = timeout_ms});
    ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return outcomes;
  }

  RingRunner runner_{windows(), "cpu"};
  double ms_ = 0;
};

TEST_F(Failures, LateAndOutOfOrderIsAsRight) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const auto& outcome : run({.seed = seed, .most_delay_us = 5000}, kPatience))
      EXPECT_TRUE(outcome.status.ok()) << outcome.status.error().message;
    EXPECT_EQ(runner_.difference(), "") << seed;
  }
}

TEST_F(Failures, RandomProgramsInStorms) {
  int compared = 0;
  for (std::uint64_t seed = 440000; seed < 440030; ++seed) {
    RingRunner runner(random_program(seed, {.most_tokens = 60, .most_heads = 2, .nesting = 1}), "cpu");
    if (!runner.refused().empty() || !runner.run_whole().ok()) continue;
    const auto outcomes = runner.run_ring(stormy_transports(3, {.seed = seed}), {.timeout_ms = 20'000}, 2);
    if (!outcomes[0].status.ok() && outcomes[0].status.error().message.find("pooled") != std::string::npos) continue;
    for (const auto& outcome : outcomes) ASSERT_TRUE(outcome.status.ok()) << seed << outcome.status.error().message;
    ASSERT_EQ(runner.difference(), "") << seed << to_file(runner.program());
    ++compared;
  }
  EXPECT_GT(compared, 15);
}

/// Queries that travel, and rounds of keys: the same bits as without a storm, and an end where a rank is gone, whatever
/// step it was in.
TEST(FailuresOfCuts, StormsAndLostRanks) {
  RingRunner runner({.text = "pattern p { branch global(8) | window(9, 9); }",
                     .pattern = "p",
                     .shape = {.batch = 1, .n_q = 600, .n_k = 600, .heads = 2, .kv_heads = 1, .d = 16, .d_v = 16},
                     .seed = 3},
                    "cpu");
  ASSERT_TRUE(runner.run_whole().ok());
  for (RingOptions options : {RingOptions{.layout = RingLayout::contiguous, .carrier = RingCarrier::queries},
                              RingOptions{.layout = RingLayout::zigzag, .memory = 4 * 128 * 32 * 4}}) {
    options.timeout_ms = kPatience;
    (void)runner.run_ring(local_transports(3).value(), options);
    const auto bits = runner.out();
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const auto outcomes = runner.run_ring(stormy_transports(3, {.seed = seed, .most_delay_us = 3000}), options, 2);
      for (const auto& outcome : outcomes) ASSERT_TRUE(outcome.status.ok()) << outcome.status.error().message;
      EXPECT_NE(outcomes[0].summary.bits, "one device");
      EXPECT_TRUE(runner.out() == bits) << seed;
    }
    options.timeout_ms = kTimeout;
    int lost = 0;
    for (std::uint64_t step = 0; step < 12; ++step) {
      const auto outcomes =
          runner.run_ring(stormy_transports(3, {.fault = Storm::Fault::drops, .rank = 1, .step = step}), options);
      for (const auto& outcome : outcomes) lost += outcome.status.ok() ? 0 : 1;
      EXPECT_TRUE(!outcomes[0].status.ok() || runner.out() == bits) << step;
    }
    EXPECT_GE(lost, 9);
  }
}

TEST_F(Failures, MessagesThatComeTwiceDoNoHarm) {
  for (std::uint64_t step = 0; step < 8; ++step) {
    for (const auto& outcome : run({.fault = Storm::Fault::sends_twice, .rank = 1, .step = step}, kPatience))
      EXPECT_TRUE(outcome.status.ok()) << outcome.status.error().message;
    EXPECT_EQ(runner_.difference(), "");
  }
}

/// At every step there is, the first of which join the ring and the last of which leaves it.
TEST_F(Failures, ARankThatStopsIsLostToAll) {
  int lost = 0;
  for (std::uint64_t step = 0; step < 60; step += step < 6 ? 1 : 9) {
    const auto outcomes = run({.fault = Storm::Fault::stops, .rank = 2, .step = step});
    if (outcomes[0].status.ok()) break;  // there are no so many steps
    ++lost;
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      if (rank == 2) continue;
      ASSERT_FALSE(outcomes[rank].status.ok()) << step;
      const auto& error = outcomes[rank].status.error();
      EXPECT_EQ(error.code, ErrorCode::ring_lost) << error.message;
      EXPECT_EQ(error.kind, ErrorKind::environment);
      EXPECT_NE(error.message.find("rank 2 is lost"), std::string::npos) << error.message;
    }
    EXPECT_LT(ms_, kTimeout + 5000) << step;
  }
  EXPECT_GE(lost, 6);
}

TEST_F(Failures, WhatIsLostOnTheWayIsNotWaitedForForEver) {
  int lost = 0;
  for (std::uint64_t step = 0; step < 6; ++step) {
    for (const auto fault : {Storm::Fault::drops, Storm::Fault::sends_less, Storm::Fault::leaves}) {
      const auto outcomes = run({.fault = fault, .rank = 1, .step = step});
      EXPECT_LT(ms_, kTimeout + 5000);
      const bool ended = !outcomes[0].status.ok();
      lost += ended ? 1 : 0;
      for (const auto& outcome : outcomes) {
        // Of the steps that move keys, some move none for this rank.
        EXPECT_EQ(!outcome.status.ok(), ended);
        if (!outcome.status.ok()) {
          EXPECT_NE(outcome.status.error().code, ErrorCode::none);
        }
      }
      if (!ended) {
        EXPECT_EQ(runner_.difference(), "");
      }
    }
  }
  EXPECT_GE(lost, 9);
}

TEST_F(Failures, RanksThatDisagreeSaySoAlike) {
  runner_.distort = [](int rank, RingShape& shape) {
    if (rank == 3) shape.tokens = 199;
  };
  const auto outcomes = runner_.run_ring(local_transports(5).value(), {.timeout_ms = kPatience});
  for (const auto& outcome : outcomes) {
    ASSERT_FALSE(outcome.status.ok());
    const auto& error = outcome.status.error();
    EXPECT_EQ(error.code, ErrorCode::ring_mismatch);
    EXPECT_EQ(error.kind, ErrorKind::user);
    EXPECT_EQ(error.message,
              "the ranks of the ring disagree on the number of tokens; ranks 0 to 2, 4: 200; rank 3: 199");
  }
}

TEST_F(Failures, WhatOneRankRefusesEndsTheOthers) {
  runner_.distort = [](int rank, RingShape& shape) {
    if (rank == 1) shape.heads = 3;  // no multiple of kv heads: refused before ranks are compared
    if (rank == 1) shape.kv_heads = 2;
  };
  const auto outcomes = runner_.run_ring(local_transports(3).value(), {.timeout_ms = kPatience});
  EXPECT_EQ(outcomes[1].status.error().kind, ErrorKind::user);
  EXPECT_EQ(outcomes[0].status.error().code, ErrorCode::ring_lost);
  EXPECT_NE(outcomes[0].status.error().message.find("rank 1 gave up"), std::string::npos)
      << outcomes[0].status.error().message;
}

/// A rank whose rows take many times the timeout is waited for.
TEST_F(Failures, SlowIsNotLost) {
  constexpr std::int64_t kShort = 1000;
  runner_.distort = [](int rank, RingShape&) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(4 * kShort));
  };
  const auto outcomes = runner_.run_ring(local_transports(3).value(), {.timeout_ms = kShort});
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome.status.ok()) << outcome.status.error().message;
  EXPECT_EQ(runner_.difference(), "");
}

}  // namespace
}  // namespace weft::test
