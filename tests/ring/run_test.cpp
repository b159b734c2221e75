#include "tests/ring/ring_runner.h"
#include "tests/support/effort.h"
#include "tests/support/random_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

/// Rings of threads compute what one device does, to the bit.
namespace weft::test {
namespace {

constexpr RingLayout kLayouts[] = {RingLayout::automatic, RingLayout::contiguous, RingLayout::zigzag,
                                   RingLayout::striped};

struct Tally {
  int runs = 0, local = 0, moved = 0;
};

/// What is wrong with one run; empty: nothing, or the pattern cannot be split.
std::string wrong_with(RingRunner& runner, int ranks, RingLayout layout, Tally& tally, int times = 1, bool lend = false,
                       RingCarrier carrier = RingCarrier::automatic) {
  const auto outcomes = runner.run_ring(local_transports(ranks).value(),
                                        {.layout = layout, .carrier = carrier, .timeout_ms = 20'000}, times, lend);
  if (auto wrong = wrong_bytes(outcomes, &RankOutcome::share); !wrong.empty()) return wrong;
  ++tally.runs;
  ++(sent_bytes(outcomes, &RankOutcome::share) == 0 ? tally.local : tally.moved);
  return runner.difference();
}

Program program(const std::string& text, ir::Shape shape, ir::DType dtype = ir::DType::f32) {
  return {.text = text, .pattern = "p", .shape = std::move(shape), .dtype = dtype, .seed = 7};
}

ir::Shape sized(std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads, std::int64_t batch = 1) {
  return {.batch = batch, .n_q = tokens, .n_k = tokens, .heads = heads, .kv_heads = kv_heads, .d = 16, .d_v = 24};
}

TEST(RingRun, HasTheBitsOfOneDevice) {
  Tally tally;
  for (const char* text :
       {"pattern p { keep causal; }", "pattern p { branch window(40, 7); }",
        "pattern p { branches dilated(segments: [64, 128, 256], rates: [1, 2, 4]); keep causal; }",
        "pattern p { branch sink(3) | window(20, 0); keep causal; combine union; score softcap(s, 20); }",
        "pattern p { branches dilated(segments: [32, 100], rates: [2, 3], heads: groups); combine mean; }"}) {
    for (const auto dtype : {ir::DType::f32, ir::DType::bf16}) {
      RingRunner runner(program(text, sized(700, 4, 2, 2), dtype), "cpu");
      ASSERT_EQ(runner.refused(), "");
      ASSERT_TRUE(runner.run_whole().ok());
      for (const int ranks : {1, 2, 3, 4, 7}) {
        for (const auto layout : kLayouts)
          EXPECT_EQ(wrong_with(runner, ranks, layout, tally), "") << text << ranks << static_cast<int>(layout);
      }
    }
  }
  EXPECT_GT(tally.moved, 100);
}

TEST(RingRun, OnEveryTargetThatReadsTheHostsMemory) {
  Tally tally;
  for (const char* target : {"interpreter", "cpu:x86-64", "emulate:sm_61"}) {
    RingRunner runner(program("pattern p { branch window(30, 0) | sink(2); keep causal; }", sized(150, 2, 1)), target);
    ASSERT_EQ(runner.refused(), "") << target;
    ASSERT_TRUE(runner.run_whole().ok());
    EXPECT_EQ(wrong_with(runner, 3, RingLayout::automatic, tally), "") << target;
  }
  EXPECT_EQ(tally.moved, 3);
}

TEST(RingRun, MoreRanksThanTokens) {
  Tally tally;
  for (const std::int64_t tokens : {1, 2, 5}) {
    RingRunner runner(program("pattern p { keep causal; }", sized(tokens, 2, 1)), "cpu");
    ASSERT_TRUE(runner.run_whole().ok());
    for (const auto layout : kLayouts) EXPECT_EQ(wrong_with(runner, 6, layout, tally), "") << tokens;
  }
}

TEST(RingRun, RunsAgainAndWithMemoryThatItLends) {
  Tally tally;
  RingRunner runner(program("pattern p { branch window(100, 0); }", sized(600, 2, 2, 2)), "cpu");
  ASSERT_TRUE(runner.run_whole().ok());
  EXPECT_EQ(wrong_with(runner, 4, RingLayout::contiguous, tally, 5, true), "");
  EXPECT_EQ(wrong_with(runner, 4, RingLayout::zigzag, tally, 5, true), "");
}

TEST(RingRun, StripesOfManyRanks) {
  Tally tally;
  RingRunner runner(program("pattern p { branch window(20, 0); }", sized(300, 3, 1, 2)), "cpu");
  ASSERT_TRUE(runner.run_whole().ok());
  for (const int ranks : {2, 31, 32, 33, 50})
    EXPECT_EQ(wrong_with(runner, ranks, RingLayout::striped, tally), "") << ranks;
}

/// Each entry of the batch chooses keys by its own scores, and needs those.
TEST(RingRun, EntriesChooseKeysOfTheirOwn) {
  Tally tally;
  RingRunner runner(program("pattern p { input scores: f32[batch, heads, blocks, blocks]; "
                            "branch blocks(4, top(2, by: input(scores))); }",
                            sized(96, 2, 2, 3)),
                    "cpu");
  ASSERT_TRUE(runner.run_whole().ok());
  for (const int ranks : {3, 6}) EXPECT_EQ(wrong_with(runner, ranks, RingLayout::contiguous, tally), "") << ranks;
}

TEST(RingRun, NothingTravelsWhereSegmentsFitARank) {
  Tally tally;
  RingRunner runner(program("pattern p { branches dilated(segments: [64, 128], rates: [1, 2]); }", sized(512, 4, 4)),
                    "cpu");
  ASSERT_TRUE(runner.run_whole().ok());
  EXPECT_EQ(wrong_with(runner, 4, RingLayout::automatic, tally), "");
  EXPECT_EQ(tally.local, 1);
}

TEST(RingRun, RandomProgramsOverTheWholeLanguage) {
  Tally tally;
  const int programs = effort(60, 100);
  for (int i = 0; i < programs; ++i) {
    const auto seed = 430000 + static_cast<std::uint64_t>(i);
    RingRunner runner(random_program(seed, {.most_tokens = 70, .most_heads = 3, .nesting = 2}), "cpu");
    if (!runner.refused().empty() || !runner.run_whole().ok()) continue;
    for (const int ranks : {2, 5}) {
      const auto layout = kLayouts[static_cast<std::size_t>(i + ranks) % std::size(kLayouts)];
      const auto wrong = wrong_with(runner, ranks, layout, tally);
      if (wrong.find("by: pooled") != std::string::npos) continue;
      ASSERT_EQ(wrong, "") << seed << ", " << ranks << " ranks\n" << to_file(runner.program());
    }
  }
  EXPECT_GT(tally.runs, programs / 2);
  EXPECT_GT(tally.moved, programs / 3);
}

}  // namespace
}  // namespace weft::test
