#include "codegen/cuda/emit.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/planner/planner.h"
#include "tests/codegen/any_kernel.h"
#include "tests/support/planted.h"

#include <gtest/gtest.h>

/// Sums that settle after every few keys instead of thousands, so that short rows show what long ones do; and faults
/// planted in how they do.
namespace weft::testing {
namespace {

using ir::make_set;
using ir::SetKind;

constexpr std::int64_t kRows = 150, kKeys = 1500, kDim = 32;

struct Planted {
  const char* name;
  const char* target;
  const char* from;  ///< stands in the text exactly once
  const char* to;
  const char* found;  ///< part of the fault's message; "wrong" where the numbers give it away
};

constexpr const char* kLanes = "sm_61";
constexpr const char* kMatrices = "sm_80";
constexpr Planted kPlanted[] = {
    {"lanes", kLanes, "", "", ""},
    {"matrices", kMatrices, "", "", ""},
    {"lanes_not_scaled", kLanes, "exp2_approx(settled[r] - m[r]) : 0", "1 : 0", "wrong"},
    {"matrices_not_scaled", kMatrices, "exp2_approx(to.m[i] - now.m[i]) : 0", "1 : 0", "wrong"},
    {"lanes_forgotten", kLanes, "if (last) return after;", "", "wrong"},
    {"matrices_forgotten", kMatrices, "if (last) return after;", "", "wrong"},
    {"lanes_begin_anew", kLanes, "last || rounds > kRounds", "last", "wrong"},
    {"matrices_begin_anew", kMatrices, "last || rounds > kRounds", "last", "wrong"},
};

/// Full and partial blocks, pairs that count twice.
ir::Pattern pattern() {
  ir::Pattern p;
  p.name = "settled";
  const auto window = make_set(SetKind::window, {1200, 0});
  p.branches.push_back({.set = make_set(SetKind::causal), .heads = {}, .range = {}});
  p.branches.push_back({.set = window, .heads = {}, .range = {}});
  return p;
}

class Settling : public ::testing::TestWithParam<Planted> {};

TEST_P(Settling, ShowsInShortRows) {
  const Planted& fault = GetParam();
  const ir::Pattern p = pattern();
  const auto dtype = best_dtype(fault.target);
  const Target target = find_target(fault.target).value();
  const ir::Shape shape{.batch = 1, .n_q = kRows, .n_k = kKeys, .heads = 1, .kv_heads = 1, .d = kDim, .d_v = kDim};
  const auto plan = planner::plan(p, {.d = kDim, .d_v = kDim, .dtype = dtype}, target);
  ASSERT_TRUE(plan.ok());
  codegen::Source source = codegen::cuda::emit(*plan, target);
  source.text = with_fault(source.text, "kStored == Element::f32 ? 1024 : 8192", "kKeys");
  source.text = with_fault(source.text, fault.from, fault.to);
  const auto kernel = EmulatedKernel::of(*plan, source);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message << (kernel.error().notes.empty() ? "" : kernel.error().notes[0]);
  const auto q = rounded(normal({1, kRows, 1, kDim}, 1), dtype), v = rounded(normal({1, kKeys, 1, kDim}, 3), dtype);
  auto k = normal({1, kKeys, 1, kDim}, 2);
  // Larger scores further on, so that maxima move.
  for (std::int64_t i = 0; i < kKeys * kDim; ++i)
    k.data[static_cast<std::size_t>(i)] *= static_cast<double>(1 + 16 * i / (kKeys * kDim));
  k = rounded(k, dtype);
  const auto want = ir::interpret(p, shape, q, k, v, {});
  ASSERT_TRUE(want.ok());
  const auto bound = ir::error_bounds(p, dtype, kKeys, 5, want->max_abs_score).o;
  expect_found(kernel->run(shape, q, k, v, {}), *want, bound, fault.found);
}

INSTANTIATE_TEST_SUITE_P(Text, Settling, ::testing::ValuesIn(kPlanted),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace weft::testing
