#include "compiler/ir/merge.h"

#include "compiler/ir/pattern_interpreter.h"
#include "compiler/planner/planner.h"
#include "tests/support/places.h"
#include "tests/support/random_numbers.h"
#include "tools/npy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

/// Partial results that are merged by semantics section 9: against ring-flash-attention's own merge, and against the
/// whole that hops of a ring are parts of.
namespace weft::golden {
namespace {

using ir::Outcome;
using ir::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor tensor(const std::string& path) {
  const auto array = npy::read(test::in_checkout("tests/golden/") + path + ".npy");
  EXPECT_TRUE(array.ok()) << path;
  return npy::to_tensor(array.value());
}

/// `tolerance` as the cases' files give it: absolute for O, relative to the larger of 1 and |l| for the logs.
void expect_close(const Outcome& found, const Tensor& o, const Tensor& l, double tolerance) {
  ASSERT_EQ(found.o.shape, o.shape);
  ASSERT_EQ(found.lse.shape, l.shape);
  for (std::size_t i = 0; i < o.data.size(); ++i) ASSERT_NEAR(found.o.data[i], o.data[i], tolerance) << i;
  for (std::size_t i = 0; i < l.data.size(); ++i) {
    if (std::isinf(l.data[i])) {
      ASSERT_EQ(found.lse.data[i], l.data[i]) << i;
    } else {
      ASSERT_NEAR(found.lse.data[i], l.data[i], tolerance * std::max(1.0, std::fabs(l.data[i]))) << i;
    }
  }
}

TEST(Merge, AsRingFlashAttentionDoes) {
  Outcome whole{.o = tensor("ring_merge/o1"), .lse = tensor("ring_merge/l1"), .branch_lse = {}};
  ir::merge(whole, {.o = tensor("ring_merge/o2"), .lse = tensor("ring_merge/l2"), .branch_lse = {}});
  expect_close(whole, tensor("ring_merge/o"), tensor("ring_merge/l"), 2e-6);
}

/// Part `i` of a stack of them.
Tensor slice(const Tensor& stack, std::int64_t i) {
  Tensor part(std::vector<std::int64_t>(stack.shape.begin() + 1, stack.shape.end()));
  const auto size = static_cast<std::ptrdiff_t>(part.data.size());
  std::copy_n(stack.data.begin() + i * size, size, part.data.begin());
  return part;
}

TEST(Merge, AChainOfParts) {
  const Tensor o = tensor("ring_merge_chain/parts_o"), l = tensor("ring_merge_chain/parts_l");
  Outcome whole{.o = slice(o, 0), .lse = slice(l, 0), .branch_lse = {}};
  for (std::int64_t i = 1; i < o.shape[0]; ++i) {
    ir::merge(whole, {.o = slice(o, i), .lse = slice(l, i), .branch_lse = {}});
  }
  ASSERT_GT(o.shape[0], 2);
  expect_close(whole, tensor("ring_merge_chain/o"), tensor("ring_merge_chain/l"), 4e-6);
}

/// Where the library gives NaN: rows that no part, or only the second one, has keys for.
TEST(Merge, EmptySides) {
  const Outcome none{.o = Tensor({1, 1, 1, 2}), .lse = Tensor({1, 1, 1}, -kInfinity), .branch_lse = {}};
  const Outcome some{.o = Tensor({1, 1, 1, 2}, 3), .lse = Tensor({1, 1, 1}, 0), .branch_lse = {}};
  Outcome both = none;
  ir::merge(both, none);
  expect_close(both, none.o, none.lse, 0);
  ir::merge(both, some);
  expect_close(both, some.o, some.lse, 0);
  ir::merge(both, none);
  expect_close(both, some.o, some.lse, 0);
}

Tensor normal(std::vector<std::int64_t> shape, std::uint64_t seed) {
  Tensor t(std::move(shape));
  test::RandomNumbers random(seed);
  for (auto& value : t.data) value = 3 * random.normal();
  return t;
}

TEST(Merge, HopsOfARingAddUpToTheWhole) {
  const ir::Shape s{.batch = 2, .n_q = 29, .n_k = 29, .heads = 4, .kv_heads = 2, .d = 4, .d_v = 3};
  const Tensor q = normal({2, 29, 4, 4}, 1), k = normal({2, 29, 2, 4}, 2), v = normal({2, 29, 2, 3}, 3);
  ir::Pattern pattern;
  pattern.name = "causal";
  pattern.branches.push_back({ir::make_set(ir::SetKind::causal), {}, {}});
  const Outcome meant = ir::interpret(pattern, s, q, k, v, {}).value();
  for (const auto layout : {ir::RingLayout::contiguous, ir::RingLayout::zigzag, ir::RingLayout::striped}) {
    Outcome whole{.o = Tensor(meant.o.shape), .lse = Tensor(meant.lse.shape, -kInfinity), .branch_lse = {}};
    for (std::int64_t hop = 0; hop < 25; ++hop) {
      const ir::Pattern part = planner::hop_of(pattern, layout, 5, hop / 5, hop % 5);
      ir::merge(whole, ir::interpret(part, s, q, k, v, {}).value());
    }
    expect_close(whole, meant.o, meant.lse, 1e-12);
  }
}

}  // namespace
}  // namespace weft::golden
