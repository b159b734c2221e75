#include "compiler/ring/split.h"
#include "tests/ring/ring_runner.h"
#include "tests/support/effort.h"
#include "tests/support/random_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

/// Rings in which heads change places between ranks: both passes have the bits of one device.
namespace weft::test {
namespace {

constexpr RingLayout kLayouts[] = {RingLayout::automatic, RingLayout::contiguous, RingLayout::zigzag,
                                   RingLayout::striped};

std::vector<RankOutcome> run_heads(RingRunner& runner, int ranks, RingLayout layout, int times = 1) {
  return runner.run_ring(local_transports(ranks).value(),
                         {.layout = layout, .carrier = RingCarrier::heads, .timeout_ms = 20'000}, times);
}

/// What is wrong with both passes of one run; empty: nothing.
std::string wrong_with(RingRunner& runner, int ranks, RingLayout layout, int times = 1) {
  const auto outcomes = run_heads(runner, ranks, layout, times);
  for (const auto pass : {&RankOutcome::share, &RankOutcome::backward}) {
    if (auto wrong = wrong_bytes(outcomes, pass); !wrong.empty()) return wrong;
  }
  if (ranks > 1 && !outcomes[0].summary.carrier.starts_with("heads")) return "heads did not travel";
  return runner.difference();
}

Program program(const std::string& text, ir::Shape shape, ir::DType dtype = ir::DType::f32) {
  return {.text = text, .pattern = "p", .shape = std::move(shape), .dtype = dtype, .seed = 7};
}

ir::Shape sized(std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads, std::int64_t batch = 1) {
  return {.batch = batch, .n_q = tokens, .n_k = tokens, .heads = heads, .kv_heads = kv_heads, .d = 16, .d_v = 24};
}

TEST(RingOfHeads, HasTheBitsOfOneDevice) {
  for (const char* text :
       {"pattern p { keep causal; }", "pattern p { branch window(40, 7); score s + alibi(h) * (k - q); }",
        "pattern p { branches dilated(segments: [64, 128, 256], rates: [1, 2, 4]); keep causal; }",
        "pattern p { branch sink(3) | window(20, 0); keep causal; score softcap(s, 20); dropout 0.2; }",
        "pattern p { branches dilated(segments: [64, 256], rates: [1, 2]); combine joint detached; }",
        "pattern p { branches dilated(segments: [32, 100], rates: [2, 3], heads: groups); combine mean; }",
        "pattern p { keep blocks(16, random(2, seed: 4) | window(1, 0)); }",
        "pattern p { input bias: f32[batch, heads, keys]; keep causal; score s + bias[b, h, k]; }",
        "pattern p { branch window(50, 3); weights sigmoid; }"}) {
    for (const auto dtype : {ir::DType::f32, ir::DType::bf16}) {
      RingRunner runner(program(text, sized(260, 6, 3, 2), dtype), "cpu", true);
      ASSERT_EQ(runner.refused(), "") << text;
      ASSERT_TRUE(runner.run_whole().ok()) << text;
      for (const int ranks : {2, 3, 6}) {
        for (const auto layout : kLayouts) {
          if (dtype == ir::DType::bf16 && layout != RingLayout::automatic) continue;
          EXPECT_EQ(wrong_with(runner, ranks, layout), "") << text << ' ' << ranks << ' ' << static_cast<int>(layout);
        }
      }
    }
  }
}

TEST(RingOfHeads, OnEveryTargetThatReadsTheHostsMemory) {
  for (const char* target : {"interpreter", "cpu:x86-64", "emulate:sm_61"}) {
    RingRunner runner(program("pattern p { branch window(30, 0) | sink(2); keep causal; }", sized(150, 4, 2)), target);
    ASSERT_EQ(runner.refused(), "") << target;
    ASSERT_TRUE(runner.run_whole().ok());
    for (const int ranks : {2, 4}) EXPECT_EQ(wrong_with(runner, ranks, RingLayout::automatic), "") << target;
  }
}

TEST(RingOfHeads, RunsAgainAndOnMoreRanksThanTokens) {
  RingRunner again(program("pattern p { branch window(100, 0); }", sized(600, 2, 2, 2)), "cpu", true);
  ASSERT_TRUE(again.run_whole().ok());
  EXPECT_EQ(wrong_with(again, 4, RingLayout::automatic, 3), "");
  RingRunner few(program("pattern p { keep causal; }", sized(5, 4, 2)), "cpu", true);
  ASSERT_TRUE(few.run_whole().ok());
  for (const auto layout : kLayouts) {
    EXPECT_EQ(wrong_with(few, 8, layout), "");
    EXPECT_EQ(wrong_with(few, 2, layout), "");
  }
}

TEST(RingOfHeads, OneRankIsOneDevice) {
  RingRunner runner(program("pattern p { keep causal; }", sized(100, 2, 2)), "cpu", true);
  ASSERT_TRUE(runner.run_whole().ok());
  EXPECT_EQ(wrong_with(runner, 1, RingLayout::automatic), "");
}

/// Q, K and V of half of the tokens for half of the heads, and O and LSE of the own half of the tokens for the others.
TEST(RingOfHeads, MovesWhatWasSaid) {
  RingRunner runner(program("pattern p { keep causal; }", sized(600, 4, 2)), "cpu");
  ASSERT_TRUE(runner.run_whole().ok());
  for (const auto& outcome : run_heads(runner, 2, RingLayout::automatic)) {
    ASSERT_TRUE(outcome.status.ok());
    EXPECT_EQ(outcome.summary.carrier, "heads");
    EXPECT_EQ(outcome.summary.layout, "contiguous, heads in 2");
    EXPECT_EQ(outcome.summary.imbalance, 1);
    EXPECT_EQ(outcome.share.received_bytes, std::size_t{300 * 4} * (2 * 16 + 16 + 24 + 2 * (24 + 1)));
  }
}

/// Nobody has all rows of patterns that pool them, but whoever has all rows of some heads.
TEST(RingOfHeads, PatternsThatPoolAllRows) {
  RingRunner runner(program("pattern p { keep blocks(8, top(3, by: pooled)); }", sized(150, 6, 3)), "cpu", true);
  ASSERT_EQ(runner.refused(), "");
  ASSERT_TRUE(runner.run_whole().ok());
  for (const int ranks : {1, 2, 3}) {
    for (const auto carrier : {RingCarrier::automatic, RingCarrier::heads}) {
      const auto outcomes = runner.run_ring(local_transports(ranks).value(), {.carrier = carrier});
      ASSERT_TRUE(outcomes[0].status.ok()) << outcomes[0].status.error().message;
      EXPECT_EQ(outcomes[0].summary.carrier, ranks > 1 ? "heads" : "local");
      EXPECT_EQ(runner.difference(), "");
    }
  }
  EXPECT_NE(wrong_with(runner, 4, RingLayout::automatic).find("pools all queries and keys"), std::string::npos);
}

TEST(RingOfHeads, ThatCannotBeSplitAreRefused) {
  RingRunner runner(program("pattern p { keep causal; }", sized(60, 4, 2)), "cpu");
  ASSERT_TRUE(runner.run_whole().ok());
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(
      has(wrong_with(runner, 5, RingLayout::automatic),
          "heads cannot change places among 5 ranks: that is no multiple of a number from 2 to 2, the heads of k "
          "and v; use the carrier 'keys'"));
  RingRunner one(program("pattern p { keep causal; }", sized(60, 2, 1)), "cpu");
  ASSERT_TRUE(one.run_whole().ok());
  EXPECT_TRUE(has(wrong_with(one, 2, RingLayout::automatic),
                  "one head of k and v cannot change places with another; use the carrier 'keys'"));
}

TEST(RingOfHeads, RandomProgramsOverTheWholeLanguage) {
  const int programs = effort(25, 50);
  int runs = 0;
  for (int i = 0; i < programs; ++i) {
    const auto seed = 480000 + static_cast<std::uint64_t>(i);
    auto drawn = random_program(seed, {.most_tokens = 100, .most_heads = 3, .nesting = 2});
    const std::int64_t group = drawn.shape.heads / drawn.shape.kv_heads;
    if (drawn.text.find("heads") == std::string::npos) drawn.shape.kv_heads += 1, drawn.shape.heads += group;
    if (drawn.shape.kv_heads < 2) continue;
    RingRunner runner(drawn, "cpu", true);
    if (!runner.refused().empty() || !runner.run_whole().ok()) continue;
    for (const int ranks : {2, 4}) {
      const auto layout = kLayouts[static_cast<std::size_t>(i + ranks / 2) % std::size(kLayouts)];
      const auto wrong = wrong_with(runner, ranks, layout);
      if (wrong.find("by: pooled") != std::string::npos && ranks > drawn.shape.kv_heads) continue;
      ASSERT_EQ(wrong, "") << seed << ", " << ranks << " ranks\n" << to_file(runner.program());
      ++runs;
    }
  }
  EXPECT_GT(runs, programs / 3);
}

/// By all ways to cut them.
double least_of_all(const std::vector<double>& work, std::size_t first, std::int64_t lanes) {
  const double rest = std::accumulate(work.begin() + static_cast<std::ptrdiff_t>(first), work.end(), 0.0);
  if (lanes == 1) return rest;
  double best = rest, lane = 0;
  for (auto end = first + 1; end + static_cast<std::size_t>(lanes) - 1 <= work.size(); ++end) {
    lane += work[end - 1];
    best = std::min(best, std::max(lane, least_of_all(work, end, lanes - 1)));
  }
  return best;
}

TEST(Lanes, TheLargestHasTheLeast) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> work(1 + random() % 9);
    for (auto& head : work) head = static_cast<double>(random() % 50);
    const auto lanes = 1 + static_cast<std::int64_t>(random() % work.size());
    const auto found = ring::lanes_of(work, lanes);
    ASSERT_EQ(std::ssize(found), lanes);
    double most = 0;
    std::int64_t next = 0;
    for (const auto& lane : found) {
      EXPECT_EQ(lane.first, next);
      EXPECT_GT(lane.count, 0);
      next = lane.end();
      most = std::max(most, std::accumulate(work.begin() + lane.first, work.begin() + lane.end(), 0.0));
    }
    EXPECT_EQ(next, std::ssize(work));
    EXPECT_EQ(most, least_of_all(work, 0, lanes));
  }
}

TEST(Lanes, RanksOfAGroupShareItsRows) {
  for (const auto layout : {ir::RingLayout::contiguous, ir::RingLayout::zigzag, ir::RingLayout::striped}) {
    const auto split = ring::Split::of_groups(ring::owners(layout, 101, 3), {{0, 2}, {2, 1}});
    ASSERT_EQ(split.ranks(), 6);
    for (std::int64_t rank = 0; rank < 6; ++rank) {
      std::vector<std::int64_t> computed, owned;
      const auto add = [](const ring::Runs& runs, std::vector<std::int64_t>& to) {
        for (const auto& run : runs) {
          for (std::int64_t i = 0; i < run.count; ++i) to.push_back(run.first + i * run.stride);
        }
      };
      add(split.computed(rank), computed);
      for (std::int64_t lane = 0; lane < 2; ++lane) add(split.owned(split.rank_of(split.group_of(rank), lane)), owned);
      EXPECT_EQ(owned, computed) << "in the order of the group's rows";
      EXPECT_EQ(split.heads(rank).first, rank % 2 == 0 ? 0 : 2);
    }
  }
}

}  // namespace
}  // namespace weft::test
