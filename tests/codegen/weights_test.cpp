#include "codegen/cuda/emit.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/planner/planner.h"
#include "tests/codegen/emulated_runner.h"
#include "tests/codegen/random_check.h"
#include "tests/support/planted.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

/// Sinks and weights that are no softmax's, as kernels for GPUs compute them, and the faults that would pass a test
/// without them: each changes one place of a text.
namespace weft::testing {
namespace {

using ir::make_set;
using ir::Op;
using ir::SetKind;

struct Planted {
  const char* name;
  const char* target;
  bool sigmoid;
  const char* from;  ///< stands in the text exactly once
  const char* to;
  const char* found;  ///< "wrong" where the numbers give it away
};

constexpr Planted kPlanted[] = {
    {"sinks", "sm_61", false, "", "", ""},
    {"of_another_head", "sm_61", false, "float sink = sink_logit(a, h)", "float sink = sink_logit(a, 0)", "wrong"},
    {"in_base_e", "sm_61", false, "sink_logit(a, h) * 1.44269504088896341f", "sink_logit(a, h)", "wrong"},
    {"sum_as_it_was", "sm_61", false, "l = __fmaf_rn(l, by, exp2_approx(sink - top))", "l += exp2_approx(sink - top)",
     "wrong"},
    {"o_as_it_was", "sm_61", false, "return join_sink(a, t.h + head_of_row(s, row), m, l);",
     "join_sink(a, t.h + head_of_row(s, row), m, l); return 1.0f;", "wrong"},
    {"barrier_behind_sinks", "sm_61", false, "put(s.sums[row], l);\n  }\n  __syncthreads();",
     "put(s.sums[row], l);\n  }", "race"},
    {"left_out", "sm_61", false, "join_sinks(a, shared, state);", "", "wrong"},
    {"sinks_of_matrices", "sm_80", false, "", "", ""},
    {"o_of_matrices_as_it_was", "sm_80", false, "return join_sink(a, t.h + head_of_row(s, row), m, l);",
     "join_sink(a, t.h + head_of_row(s, row), m, l); return 1.0f;", "wrong"},
    {"sigmoids", "sm_61", true, "", "", ""},
    {"divided", "sm_61", true, "return kDirect ? factor / kDirect : l == 0", "return l == 0", "wrong"},
    {"counted_once", "sm_61", true, "score * kDirect * exp2_approx(weight)", "score * kDirect", "wrong"},
    {"unkept_pairs_weigh", "sm_61", true, "score * kDirect * exp2_approx(weight) : 0;",
     "score * kDirect * exp2_approx(weight) : score;", "wrong"},
    {"sigmoids_of_matrices", "sm_80", true, "", "", ""},
    {"as_large_as_multiplied", "sm_80", true, "return kDirect ? factor / kDirect", "return kDirect ? factor", "wrong"},
};

/// Two branches that share keys, rows without keys, and a sink above and below the scores of its head's rows.
ir::Pattern pattern(bool sigmoid) {
  ir::Pattern p;
  p.name = "planted";
  for (const std::int64_t reach : {70, 30})
    p.branches.push_back({.set = make_set(SetKind::window, {reach, -2}), .heads = {}, .range = {}});
  const ir::ExprPtr h = ir::apply(Op::to_real, {ir::variable(ir::Variable::h)});
  const ir::ExprPtr of_head =
      ir::apply(Op::subtract, {ir::apply(Op::multiply, {h, ir::constant_real(6)}), ir::constant_real(3)});
  if (sigmoid) {
    p.sigmoid = ir::apply(Op::subtract, {ir::variable(ir::Variable::s), ir::constant_real(2)});
  } else {
    p.sink_logit = of_head;
  }
  return p;
}

class PlantedWeights : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedWeights, AreFound) {
  const Planted& fault = GetParam();
  const ir::Pattern p = pattern(fault.sigmoid);
  const Target target = find_target(fault.target).value();
  const ir::Shape shape{.batch = 1, .n_q = 150, .n_k = 150, .heads = 4, .kv_heads = 2, .d = 32, .d_v = 16};
  const bool halves = fault.target == std::string_view("sm_80");
  const auto dtype = halves ? ir::DType::f16 : ir::DType::f32;
  const auto plan = planner::plan(p, {.d = shape.d, .d_v = shape.d_v, .dtype = dtype}, target);
  ASSERT_TRUE(plan.ok());
  codegen::Source source = codegen::cuda::emit(*plan, target);
  source.text = with_fault(source.text, fault.from, fault.to);
  const auto kernel = EmulatedKernel::of(*plan, source);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message << (kernel.error().notes.empty() ? "" : kernel.error().notes[0]);
  const auto q = normal({1, 150, 4, 32}, 1, dtype), k = normal({1, 150, 2, 32}, 2, dtype),
             v = normal({1, 150, 2, 16}, 3, dtype);
  const auto want = ir::interpret(p, shape, q, k, v, {});
  const auto bound = ir::error_bounds(p, dtype, 150, 5, want->max_abs_score, want->largest_sum).o;
  expect_found(kernel->run(shape, q, k, v, {}), *want, bound, fault.found);
}

INSTANTIATE_TEST_SUITE_P(Text, PlantedWeights, ::testing::ValuesIn(kPlanted),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace weft::testing
