#include "compiler/planner/planner.h"
#include "tests/support/program.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::ir
