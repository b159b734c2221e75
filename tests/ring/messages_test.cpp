#include "tests/ring/messages.h"
#include "tests/ring/ring_runner.h"
#include "tests/support/random_program.h"

#include <gtest/gtest.h>

#include <chrono>

/// Rings over a program's own messages: late and out of order they are as right, and whatever goes wrong with one of
/// them, every rank ends with an error and no message is left open.
namespace weft::test {
namespace {

constexpr std::int64_t kTimeout = 400;

class Messages : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(runner_.run_whole().ok()); }
  void TearDown() override { EXPECT_EQ(misuse_->left_open, 0); }

  std::vector<RankOutcome> run(RingRunner& runner, const Weather& weather, std::int64_t timeout_ms, int times = 1) {
    Transports transports;
    for (auto& messenger : messengers(3, weather, misuse_))
      transports.push_back(message_transport(std::move(messenger)).value());
    return runner.run_ring(std::move(transports), {.layout = RingLayout::zigzag, .timeout_ms = timeout_ms}, times);
  }

  const std::shared_ptr<Misuse> misuse_ = std::make_shared<Misuse>();
  RingRunner runner_{{.text = "pattern p { branch window(30, 5); }",
                      .pattern = "p",
                      .shape = {.batch = 1, .n_q = 200, .n_k = 200, .heads = 2, .kv_heads = 1, .d = 8, .d_v = 8},
                      .seed = 3},
                     "cpu"};
};

TEST_F(Messages, LateAndOutOfOrderAreAsRight) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    for (const auto& outcome : run(runner_, {.seed = seed, .most_delay_us = 5000}, 20'000, 2))
      EXPECT_TRUE(outcome.status.ok()) << outcome.status.error().message;
    EXPECT_EQ(runner_.difference(), "") << seed;
  }
}

TEST_F(Messages, CarryRandomPrograms) {
  int compared = 0;
  for (std::uint64_t seed = 450000; seed < 450020; ++seed) {
    RingRunner runner(random_program(seed, {.most_tokens = 60, .most_heads = 2, .nesting = 1}), "cpu");
    if (!runner.refused().empty() || !runner.run_whole().ok()) continue;
    const auto outcomes = run(runner, {.seed = seed}, 20'000);
    if (!outcomes[0].status.ok() && outcomes[0].status.error().message.find("pooled") != std::string::npos) continue;
    for (const auto& outcome : outcomes) ASSERT_TRUE(outcome.status.ok()) << seed << outcome.status.error().message;
    ASSERT_EQ(runner.difference(), "") << seed << to_file(runner.program());
    ++compared;
  }
  EXPECT_GT(compared, 10);
}

TEST_F(Messages, ThatFailEndAllRanks) {
  using Fault = Weather::Fault;
  int ended = 0;
  for (int number = 0; number < 12; number += 2) {
    for (const auto& [fault, words] : {std::pair{Fault::lost, "has not come"},
                                       {Fault::shorter, "bytes, rank"},
                                       {Fault::refused, "the post is closed"},
                                       {Fault::refused_later, "burnt down"}}) {
      const auto start = std::chrono::steady_clock::now();
      const auto outcomes = run(runner_, {.fault = fault, .rank = 1, .number = number}, kTimeout);
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(kTimeout + 5000));
      if (outcomes[0].status.ok() && outcomes[1].status.ok() && outcomes[2].status.ok()) continue;
      ++ended;
      bool said = false;
      for (const auto& outcome : outcomes) {
        ASSERT_FALSE(outcome.status.ok()) << number << words;
        EXPECT_TRUE(outcome.status.error().code == ErrorCode::ring_lost ||
                    outcome.status.error().code == ErrorCode::ring_transport)
            << outcome.status.error().message;
        said = said || outcome.status.error().message.find(words) != std::string::npos;
      }
      EXPECT_TRUE(said) << words << ": " << outcomes[1].status.error().message;
    }
  }
  EXPECT_GE(ended, 16);
}

TEST_F(Messages, AreOfRanksThatThereAre) {
  class Nobody final : public Messenger {
   public:
    int rank() const override { return 2; }
    int ranks() const override { return 2; }
    Result<std::uint64_t> send(int, int, const void*, std::size_t) override { return std::uint64_t{1}; }
    Result<std::uint64_t> receive(int, int, void*, std::size_t) override { return std::uint64_t{1}; }
    Result<std::optional<std::size_t>> test(std::uint64_t) override { return std::optional<std::size_t>(); }
    void cancel(std::uint64_t) noexcept override {}
  };
  const auto made = message_transport(std::make_unique<Nobody>());
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "rank 2 of 2 is no rank of a ring");
}

}  // namespace
}  // namespace weft::test
