#include "compiler/ir/few_rows.h"
#include "compiler/planner/planner.h"
#include "tests/support/program.h"

#include <gtest/gtest.h>

#include <utility>

/// What GPU plans choose that results do not show.
namespace weft::ir {
namespace {

Plan planned(const char* text, const char* target, std::int64_t d, bool gradient = false) {
  const auto pattern = test::lowered({.text = text, .pattern = "p"}).value();
  const Bind bind{.d = d, .d_v = d, .dtype = DType::f16, .gradient = gradient};
  return planner::plan(pattern, bind, find_target(target).value()).value();
}

TEST(Choices, TilesOf64RowsAreOfTwoWarpsWhereFourBlocksOfThreadsFindRoom) {
  const char* const blocks = "pattern p { branch blocks(64, window(1, 1) | random(2, seed: 7)); }";
  for (const auto& [target, d, threads] :
       {std::tuple("sm_80", 64, 64), {"sm_80", 128, 128}, {"sm_86", 64, 128}, {"sm_90", 64, 64}, {"sm_90", 128, 64}}) {
    const Choices c = planned(blocks, target, d).choices;
    EXPECT_EQ(c.tile_q, 64) << target << " d " << d;
    EXPECT_EQ(c.threads, threads) << target << " d " << d;
    EXPECT_EQ(c.micro_q, threads == 64 ? 2 : 1) << target << " d " << d;
  }
}

TEST(Choices, TilesHave64RowsWhereAllThatIsSaidOfRowsIsTheSameOfThem) {
  const auto rows = [](const char* text) { return planned(text, "sm_80", 64).choices.tile_q; };
  EXPECT_EQ(rows("pattern p { branch blocks(64, window(2, 2)); }"), 64) << "bounds";
  EXPECT_EQ(rows("pattern p { branch blocks(64, window(2, 2) | where(q % 4 == 0)); }"), 64) << "a condition on rows";
  EXPECT_EQ(rows("pattern p { branch segment(192); }"), 64) << "every third tile of 128 would have a border";
  EXPECT_EQ(rows("pattern p { branch blocks(128, window(2, 2)); }"), 128);
  EXPECT_EQ(rows("pattern p { branch segment(2112); }"), 128) << "one of 17 has a border";
  EXPECT_EQ(rows("pattern p { branch blocks(64, window(2, 2)); keep causal; }"), 128) << "each row ends where it is";
  EXPECT_EQ(rows("pattern p { branch blocks(64, window(2, 2)) & where(q < 100); }"), 128) << "a border at 100";
  EXPECT_EQ(rows("pattern p { branch blocks(64, window(2, 2)) & where(q % 3 == 0); }"), 128) << "each third row";
  EXPECT_EQ(rows("pattern p { }"), 128) << "nothing is said";
}

TEST(Choices, KeysAskTheSummariesOfQueriesWhereBothSayTheSame) {
  const Plan documents =
      planned("pattern p { input doc: i32[batch, tokens]; keep causal & document(doc); }", "sm_80", 64, true);
  ASSERT_EQ(documents.lists.size(), 1U);
  EXPECT_EQ(documents.transposed->lists, documents.lists);
  const Plan two = planned(
      "pattern p { input a: i32[batch, tokens]; input other: i32[batch, tokens]; branch where(a[b, k] <= other[b, q]); "
      "}",
      "sm_80", 64, true);
  ASSERT_EQ(two.lists.size(), 1U);
  EXPECT_TRUE(two.transposed->lists.empty());
}

TEST(Choices, KeysKnowWhoChoseThem) {
  const auto chosen = [](const char* text, bool gradient = true) {
    const Plan plan = planned(text, "sm_80", 64, gradient);
    if (gradient) {
      EXPECT_EQ(plan.transposed->lists, plan.lists) << text;
    }
    return std::count_if(plan.lists.begin(), plan.lists.end(),
                         [](const List& l) { return l.kind == List::Kind::choosers; });
  };
  EXPECT_EQ(chosen("pattern p { branch blocks(64, window(1, 1) | random(2, seed: 7)); }"), 1);
  EXPECT_EQ(chosen("pattern p { branch blocks(16, random(2, seed: 7) | top(3, by: pooled)) & causal; }"), 2);
  EXPECT_EQ(chosen("pattern p { branch blocks(8, random(2, seed: 7)); }"), 0) << "few tokens to a block";
  EXPECT_EQ(chosen("pattern p { branch blocks(64, random(2, seed: 7)); }", false), 0) << "a forward pass";
}

TEST(Choices, BranchesAreCountedWhereSeveralMayKeepAPair) {
  const auto counts = [](const char* text) {
    const Plan plan = planned(text, "sm_80", 128);
    EXPECT_EQ(plan.phases[0].passes.size(), 1U) << text;
    return plan.phases[0].passes[0].weight == Weight::count;
  };
  EXPECT_TRUE(counts("pattern p { branch causal; branch window(9, 0); }"));
  EXPECT_TRUE(counts("pattern p { branch causal on heads 0..3; branch window(9, 0) on heads 2..4; }"));
  EXPECT_FALSE(counts("pattern p { branch causal on heads 0..2; branch window(9, 0) on heads 2..4; }"));
  EXPECT_FALSE(counts("pattern p { branch causal; branch window(9, 0); combine union; }"));
  // Registers that counts take are keys of a block; so are those that a walk over several softmaxes takes.
  const auto keys = [](const char* text) { return planned(text, "sm_80", 96).choices.tile_k; };
  EXPECT_EQ(keys("pattern p { branch causal; branch window(9, 0); }"), 48);
  EXPECT_EQ(keys("pattern p { branch causal on heads 0..2; branch window(9, 0) on heads 2..4; }"), 64);
}

TEST(Choices, DecodingHasTilesOf16RowsWhoseKeysWarpsShare) {
  const char* const causal = "pattern p { keep causal; }";
  for (const char* target : {"sm_75", "sm_80", "sm_90"}) {
    for (const std::int64_t d : {8, 64, 128}) {
      const Plan plan = planned(causal, target, d);
      ASSERT_TRUE(plan.decoding) << target << " d " << d;
      EXPECT_EQ(plan.decoding->choices.tile_q, 16);
      EXPECT_EQ(plan.decoding->choices.tile_k, plan.decoding->choices.threads / 2);
      EXPECT_EQ(plan.decoding->cuts, plan.cuts);
    }
  }
  EXPECT_TRUE(planned(causal, "sm_80", 256).decoding);
  EXPECT_FALSE(planned(causal, "sm_75", 256).decoding) << "registers hold rows of K and V there";
  EXPECT_FALSE(planned(causal, "sm_61", 64).decoding);
  EXPECT_FALSE(planned(causal, "sm_80", 64, true).decoding);
  EXPECT_FALSE(planned("pattern p { keep causal; dropout 0.1; }", "sm_80", 64).decoding);
  EXPECT_TRUE(planned("pattern p { branch blocks(64, random(2, seed: 7)); }", "sm_80", 64).decoding);
  const Plan dilated = planned("pattern p { branches dilated(segments: [512, 2048], rates: [2, 4]); }", "sm_80", 64);
  ASSERT_TRUE(dilated.decoding);
  EXPECT_TRUE(dilated.phases.front().rows.classes);
  EXPECT_FALSE(dilated.decoding->phases.front().rows.classes) << "most of them would have no row";
  EXPECT_TRUE(has_own_tables(dilated, Regime::decoding));
}

TEST(Choices, DecodingIsOfRowsThatFillATileWhateverHeadsShareIt) {
  const Plan plan = planned("pattern p { keep causal; }", "sm_80", 64);
  const auto regime = [&](std::int64_t n_q, std::int64_t heads, std::int64_t kv_heads, bool alike = true) {
    return regime_of(plan, alike, {.batch = 1, .n_q = n_q, .n_k = 100, .heads = heads, .kv_heads = kv_heads});
  };
  EXPECT_EQ(regime(1, 8, 8), Regime::decoding);
  EXPECT_EQ(regime(16, 8, 8), Regime::decoding);
  EXPECT_EQ(regime(17, 8, 8), Regime::many_queries);
  EXPECT_EQ(regime(2, 8, 1), Regime::decoding);
  EXPECT_EQ(regime(2, 8, 1, false), Regime::decoding);
  EXPECT_EQ(regime(3, 8, 1), Regime::few_queries);
  EXPECT_EQ(regime(3, 8, 1, false), Regime::many_queries);
  EXPECT_EQ(regime(1, 71, 1), Regime::few_queries);
}

TEST(Choices, SizesInMemoryAreFoundByOneText) {
  const Plan plan = planned("pattern p { keep causal; }", "sm_80", 64), plain = planned("pattern p { }", "sm_61", 64);
  EXPECT_TRUE(finds_sizes(plan, Regime::decoding));
  EXPECT_FALSE(finds_sizes(plan, Regime::few_queries));
  EXPECT_TRUE(finds_sizes(*plan.decoding, Regime::decoding)) << "as its text asks";
  EXPECT_TRUE(finds_sizes(plain, Regime::few_queries));
  const auto attends = [&](std::int64_t n_q, std::int64_t heads) {
    const Shape shape{.batch = 1, .n_q = n_q, .n_k = 100, .heads = heads, .kv_heads = 1};
    return std::pair(may_attend(plan, Regime::decoding, shape), may_attend(plan, Regime::few_queries, shape));
  };
  EXPECT_EQ(attends(2, 8), std::pair(true, false));
  EXPECT_EQ(attends(3, 8), std::pair(true, true)) << "some sequences may have two queries";
  EXPECT_EQ(attends(1, 32), std::pair(false, true)) << "though decoding's text finds the sizes";
}

/// Of plans by matrix instructions: what a tile begins and ends with is more than some keys are.
TEST(Choices, FurtherPhasesPayWhatTheirTilesCost) {
  const char* const longnet =
      "pattern p { branches dilated(segments: [1024, 2048, 4096], rates: [1, 2, 4]); keep causal; }";
  EXPECT_EQ(planned(longnet, "sm_80", 64).phases.size(), 1U);
  EXPECT_EQ(planned("pattern p { branch window(9, 9); branch lag(64); }", "sm_80", 64).phases.size(), 2U);
  EXPECT_EQ(planned("pattern p { branches dilated(segments: [1000, 3001, 3100], rates: [1, 4, 5]); }", "sm_80", 64)
                .phases.size(),
            2U);
}

}  // namespace
}  // namespace weft::ir
