#include "tests/ring/ring_runner.h"
#include "tests/support/effort.h"
#include "tests/support/random_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

/// Gradients of rings have the bits of one device's, and what travels for them is what was said.
namespace weft::test {
namespace {

constexpr RingLayout kLayouts[] = {RingLayout::automatic, RingLayout::contiguous, RingLayout::zigzag,
                                   RingLayout::striped};

struct Tally {
  int runs = 0, moved = 0;
};

std::string wrong_with(RingRunner& runner, int ranks, RingLayout layout, Tally& tally, int times = 1) {
  const auto outcomes =
      runner.run_ring(local_transports(ranks).value(), {.layout = layout, .timeout_ms = 20'000}, times);
  if (auto wrong = wrong_bytes(outcomes, &RankOutcome::backward); !wrong.empty()) return wrong;
  ++tally.runs;
  if (sent_bytes(outcomes, &RankOutcome::backward) > 0) ++tally.moved;
  return runner.difference();
}

Program program(const std::string& text, std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads,
                ir::DType dtype = ir::DType::f32, std::int64_t batch = 1) {
  return {
      .text = text,
      .pattern = "p",
      .shape = {.batch = batch, .n_q = tokens, .n_k = tokens, .heads = heads, .kv_heads = kv_heads, .d = 16, .d_v = 24},
      .dtype = dtype,
      .seed = 7};
}

TEST(RingBackward, HasTheBitsOfOneDevice) {
  Tally tally;
  for (const char* text :
       {"pattern p { keep causal; }", "pattern p { branch window(40, 7); }",
        "pattern p { branches dilated(segments: [64, 128, 256], rates: [1, 2, 4]); keep causal; }",
        "pattern p { branch sink(3) | window(20, 0); keep causal; combine union; score softcap(s, 20); dropout 0.2; }",
        "pattern p { branches dilated(segments: [64, 256], rates: [1, 2]); combine joint detached; }",
        "pattern p { keep causal; combine joint detached; }",
        "pattern p { branches dilated(segments: [64, 256], rates: [1, 2]); keep causal; combine sum; }",
        "pattern p { branch window(40, 0); branch sink(2); branch dilated(segment: 300, rate: 3); combine mean; }",
        "pattern p { branch window(50, 3); weights sigmoid; }",
        "pattern p { branch window(90, 0); score s + 0.01 * (k - q); }"}) {
    for (const auto dtype : {ir::DType::f32, ir::DType::bf16}) {
      RingRunner runner(program(text, 600, 2, 1, dtype), "cpu", true);
      ASSERT_EQ(runner.refused(), "") << text;
      ASSERT_TRUE(runner.run_whole().ok()) << text;
      for (const int ranks : {1, 2, 5}) {
        for (const auto layout : kLayouts) {
          if (dtype == ir::DType::bf16 && layout != RingLayout::zigzag) continue;
          EXPECT_EQ(wrong_with(runner, ranks, layout, tally), "")
              << text << ' ' << ranks << ' ' << static_cast<int>(layout) << ' ' << static_cast<int>(dtype);
        }
      }
    }
  }
  EXPECT_GT(tally.moved, 40);
}

/// Kernels of GPUs go through the tiles that hold a rank's rows, or keys, and no others, and scale by what all ranks
/// have.
TEST(RingBackward, HasTheBitsOfOneGpu) {
  Tally tally;
  const auto check = [&](RingRunner& runner, const std::string& text, RingOptions options, int ranks) {
    options.timeout_ms = 60'000;
    const auto outcomes = runner.run_ring(local_transports(ranks).value(), options);
    EXPECT_EQ(wrong_bytes(outcomes, &RankOutcome::backward), "") << text;
    EXPECT_EQ(runner.difference(), "") << text << ' ' << ranks << ' ' << static_cast<int>(options.layout) << ' '
                                       << static_cast<int>(options.carrier);
    ++tally.runs;
    if (sent_bytes(outcomes, &RankOutcome::backward) > 0) ++tally.moved;
  };
  const bool all = tries_all();
  for (const auto& [target, dtype] : {std::pair{"emulate:sm_61", ir::DType::f32}, {"emulate:sm_80", ir::DType::f16}}) {
    int number = dtype == ir::DType::f16 ? 1 : 0;
    for (const char* text :
         {"pattern p { branch window(40, 7); dropout 0.2; }",
          "pattern p { branches dilated(segments: [32, 128], rates: [1, 2]); keep causal; }",
          "pattern p { branches dilated(segments: [64, 256], rates: [1, 2]); keep causal; combine sum; }",
          "pattern p { input bias: f32[heads, keys]; keep causal; score s + bias[h, k]; combine joint detached; }"}) {
      if (number++ % 2 != 0 && !all) continue;
      auto of = program(text, 100, 2, 2, dtype, 2);
      of.shape.d_v = 16;
      RingRunner runner(of, target, true);
      ASSERT_EQ(runner.refused(), "") << text;
      ASSERT_TRUE(runner.run_whole().ok()) << text;
      if (all) check(runner, text, {}, 2);
      check(runner, text, {.layout = RingLayout::zigzag}, 2);
      check(runner, text, {.carrier = RingCarrier::heads}, 2);
    }
  }
  EXPECT_EQ(tally.moved, tally.runs);
  RingRunner few(program("pattern p { keep causal; }", 5, 2, 1, ir::DType::f16), "emulate:sm_80", true);
  ASSERT_TRUE(few.run_whole().ok());
  if (all) check(few, "more ranks than tokens", {}, 7);
  check(few, "more ranks than tokens", {.layout = RingLayout::striped}, 3);
}

TEST(RingBackward, RandomProgramsOnGpus) {
  Tally tally;
  const char* const more = std::getenv("WEFT_RING_PROGRAMS");
  const int programs = more != nullptr ? std::atoi(more) : effort(4, 8);
  for (int i = 0; i < programs; ++i) {
    const auto seed = 470000 + static_cast<std::uint64_t>(i);
    auto of = random_program(seed, {.most_tokens = 80, .most_heads = 2, .nesting = 1});
    of.dtype = i % 2 == 0 ? ir::DType::f16 : ir::DType::f32;
    RingRunner runner(of, i % 2 == 0 ? "emulate:sm_80" : "emulate:sm_61", true);
    if (!runner.refused().empty() || !runner.run_whole().ok()) continue;
    const auto layout = kLayouts[static_cast<std::size_t>(i / 2) % std::size(kLayouts)];
    const auto wrong = wrong_with(runner, 2 + i % 3, layout, tally);
    if (wrong.find("by: pooled") != std::string::npos) continue;
    ASSERT_EQ(wrong, "") << seed << '\n' << to_file(runner.program());
  }
  EXPECT_GT(tally.moved, programs / 4);
}

TEST(RingBackward, GradientsOfInputsAreAddedOverRanks) {
  Tally tally;
  for (const char* text :
       {"pattern p { input bias: f32[batch, heads, keys]; keep causal; score s + bias[b, h, k]; }",
        "pattern p { input gate: f32[queries]; input shift: f32[heads, 9]; branch window(40, 7); "
        "score s * gate[q] + shift[h, min(abs(q - k), 8)]; dropout 0.2; }",
        "pattern p { input z: f32[heads]; branches dilated(segments: [64, 256], rates: [1, 2]); sink_logit z[h]; }",
        "pattern p { input doc: i32[tokens]; input bias: f32[heads]; keep document(doc) & causal; score s + bias[h]; "
        "}"}) {
    RingRunner runner(program(text, 300, 4, 2, ir::DType::f32, 2), "cpu", true);
    ASSERT_EQ(runner.refused(), "") << text;
    ASSERT_TRUE(runner.run_whole().ok()) << text;
    for (const int ranks : {1, 2, 5}) {
      for (const auto layout : kLayouts)
        EXPECT_EQ(wrong_with(runner, ranks, layout, tally), "") << text << ' ' << ranks;
    }
  }
}

TEST(RingBackward, RunsAgainAndOnMoreRanksThanTokens) {
  Tally tally;
  RingRunner again(program("pattern p { branch window(100, 0); }", 600, 2, 2), "cpu", true);
  ASSERT_TRUE(again.run_whole().ok());
  EXPECT_EQ(wrong_with(again, 4, RingLayout::automatic, tally, 3), "");
  RingRunner few(program("pattern p { keep causal; }", 5, 2, 1), "cpu", true);
  ASSERT_TRUE(few.run_whole().ok());
  for (const auto layout : kLayouts) EXPECT_EQ(wrong_with(few, 7, layout, tally), "");
}

TEST(RingBackward, NothingTravelsWhereSegmentsFitARank) {
  Tally tally;
  RingRunner runner(program("pattern p { branches dilated(segments: [64, 128], rates: [1, 2]); }", 512, 4, 4), "cpu",
                    true);
  ASSERT_TRUE(runner.run_whole().ok());
  EXPECT_EQ(wrong_with(runner, 4, RingLayout::automatic, tally), "");
  EXPECT_EQ(tally.moved, 0);
}

/// Rows of Q, dO, O, LSE and dLSE of the 40 tokens behind a rank's own, and K and V of the 40 before.
TEST(RingBackward, OnlyWhatIsNeededTravels) {
  RingRunner runner(program("pattern p { branch window(40, 0); }", 600, 2, 1), "cpu", true);
  ASSERT_TRUE(runner.run_whole().ok());
  const auto outcomes =
      runner.run_ring(local_transports(3).value(), {.layout = RingLayout::contiguous, .timeout_ms = 20'000});
  const std::size_t keys = 40 * (16 + 24) * 4, rows = 40 * 2 * (16 + 24 + 24 + 1 + 1) * 4;
  EXPECT_EQ(outcomes[0].backward.received_bytes, rows);
  EXPECT_EQ(outcomes[1].backward.received_bytes, keys + rows);
  EXPECT_EQ(outcomes[2].backward.received_bytes, keys);
}

TEST(RingBackward, RandomProgramsOverTheWholeLanguage) {
  Tally tally;
  const int programs = effort(20, 60);
  for (int i = 0; i < programs; ++i) {
    const auto seed = 460000 + static_cast<std::uint64_t>(i);
    RingRunner runner(random_program(seed, {.most_tokens = 150, .most_heads = 3, .nesting = 2}), "cpu", true);
    if (!runner.refused().empty() || !runner.run_whole().ok()) continue;
    for (const int ranks : {2, 5}) {
      const auto layout = kLayouts[static_cast<std::size_t>(i + ranks) % std::size(kLayouts)];
      const auto wrong = wrong_with(runner, ranks, layout, tally);
      if (wrong.find("by: pooled") != std::string::npos) continue;
      ASSERT_EQ(wrong, "") << seed << ", " << ranks << " ranks\n" << to_file(runner.program());
    }
  }
  EXPECT_GT(tally.runs, programs / 3);
  EXPECT_GT(tally.moved, programs / 4);
}

}  // namespace
}  // namespace weft::test
