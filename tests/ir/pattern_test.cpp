#include "compiler/ir/pattern.h"

#include <gtest/gtest.h>

namespace weft::ir {
namespace {

SetPtr window(std::int64_t a, std::int64_t c) { return make_set(SetKind::window, {a, c}); }
SetPtr all() { return make_set(SetKind::all); }
SetPtr causal() { return make_set(SetKind::causal); }
SetPtr join(SetKind kind, std::vector<SetPtr> sets) { return make_set(kind, std::move(sets)); }
SetPtr negate(const SetPtr& set) { return make_set(SetKind::complement, std::vector<SetPtr>{set}); }

TEST(Set, AllAndTheEmptySetFoldAway) {
  const SetPtr none = negate(all());
  EXPECT_TRUE(is_empty(*none));
  EXPECT_EQ(print(*join(SetKind::intersection, {all(), causal()})), "causal");
  EXPECT_EQ(print(*join(SetKind::unite, {none, causal()})), "causal");
  EXPECT_EQ(join(SetKind::unite, {causal(), all()})->kind, SetKind::all);
  EXPECT_TRUE(is_empty(*join(SetKind::intersection, {causal(), none})));
  EXPECT_TRUE(is_empty(*join(SetKind::difference, {causal(), all()})));
  EXPECT_EQ(print(*join(SetKind::difference, {all(), causal()})), "!causal");
  EXPECT_EQ(print(*negate(negate(causal()))), "causal");
  EXPECT_EQ(make_blocks(8, all())->kind, SetKind::all);
  EXPECT_EQ(make_where(constant_bool(true))->kind, SetKind::all);
}

TEST(Set, NestedIntersectionsAndUnionsAreFlat) {
  const SetPtr inner = join(SetKind::intersection, {causal(), window(3, 0)});
  EXPECT_EQ(join(SetKind::intersection, {inner, window(5, 5)})->children.size(), 3U);
  EXPECT_EQ(join(SetKind::unite, {inner, window(5, 5)})->children.size(), 2U);
}

TEST(Set, PrintsByPrecedence) {
  const SetPtr either = join(SetKind::unite, {causal(), window(3, 0)});
  const SetPtr lag = make_set(SetKind::lag, {4});
  EXPECT_EQ(print(*join(SetKind::intersection, {either, lag})), "(causal | window(3, 0)) & lag(4)");
  const SetPtr rest = join(SetKind::difference, {lag, causal()});
  EXPECT_EQ(print(*join(SetKind::difference, {lag, rest})), "lag(4) - (lag(4) - causal)");
  EXPECT_EQ(print(*join(SetKind::difference, {rest, lag})), "lag(4) - causal - lag(4)");
  EXPECT_EQ(print(*negate(either)), "!(causal | window(3, 0))");
  EXPECT_EQ(print(*make_set(SetKind::neighborhood, {5, 1, 1, 0, 4, 2, 1, 1})),
            "neighborhood(size: [5, 4], dilation: [1, 2], stride: [1, 1], causal: [false, true])");
  EXPECT_EQ(print(*make_blocks(64, make_top(8, -1, true))), "blocks(64, top(8, by: pooled, causal: true))");
  EXPECT_EQ(print(*make_dilated(64, 4, constant(6), true)), "dilated(segment: 64, rate: 4, phase: 2, queries: all)");
  EXPECT_EQ(print(*make_input_set(SetKind::lengths, 0), {"valid"}), "lengths(valid)");
}

std::int64_t size_of_group(HeadSet::Kind kind, std::int64_t index, std::int64_t count, std::int64_t heads) {
  std::int64_t size = 0;
  for (std::int64_t h = 0; h < heads; ++h) {
    size += HeadSet{.kind = kind, .index = index, .count = count}.contains(h, heads);
  }
  return size;
}

TEST(HeadSet, GroupsShareTheHeadsOut) {
  const auto first = HeadSet::Kind::group, last = HeadSet::Kind::group_last;
  EXPECT_EQ(size_of_group(first, 0, 3, 7), 3);
  EXPECT_EQ(size_of_group(first, 2, 3, 7), 2);
  EXPECT_EQ(size_of_group(last, 0, 3, 7), 2);
  EXPECT_EQ(size_of_group(last, 2, 3, 7), 3);
  for (std::int64_t heads = 1; heads < 20; ++heads) {
    for (const auto kind : {first, last}) {
      for (std::int64_t h = 0; h < heads; ++h) {
        int owners = 0;
        for (std::int64_t i = 0; i < 6; ++i) owners += HeadSet{.kind = kind, .index = i, .count = 6}.contains(h, heads);
        EXPECT_EQ(owners, 1) << "head " << h << " of " << heads;
      }
    }
  }
  EXPECT_TRUE((HeadSet{.kind = HeadSet::Kind::range, .lo = 2, .hi = 5}.contains(4, 8)));
  EXPECT_FALSE((HeadSet{.kind = HeadSet::Kind::range, .lo = 2, .hi = 5}.contains(5, 8)));
}

TEST(Pattern, PrintsHeadGroupsAsOneStatement) {
  Pattern p;
  p.name = "groups";
  for (std::int64_t i = 0; i < 2; ++i) {
    const SetPtr dilated = make_dilated(64 << i, 1 << i, constant(i), false);
    p.branches.push_back(
        {join(SetKind::intersection, {dilated, causal()}), {.kind = HeadSet::Kind::group, .index = i, .count = 2}, {}});
  }
  p.combine = Combine::mean;
  EXPECT_EQ(print(p),
            "pattern groups {\n"
            "  tokens any;\n"
            "  branches dilated(segments: [64, 128], rates: [1, 2], phase: [0, 1][i], heads: groups);\n"
            "  keep causal;\n"
            "  combine mean;\n"
            "}\n");
}

}  // namespace
}  // namespace weft::ir
