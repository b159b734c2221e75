#include "compiler/ir/plan_interpreter.h"
#include "compiler/planner/planner.h"
#include "tests/codegen/any_kernel.h"
#include "tests/golden/case.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft::golden {
namespace {

/// One way of computing a pattern. To add one, add its row.
struct Target {
  const char* name;
  Result<ir::Outcome> (*run)(const GoldenCase& golden);
  /// Why the target cannot do this case; empty when it can.
  std::string (*skip)(const GoldenCase& golden);
};

Result<ir::Outcome> interpret(const GoldenCase& g) {
  return ir::interpret(g.pattern, g.shape, g.q, g.k, g.v, g.inputs);
}

std::string skip_nothing(const GoldenCase&) { return {}; }

ir::Bind bind_of(const GoldenCase& g) { return {.d = g.shape.d, .d_v = g.shape.d_v, .dtype = g.dtype}; }

Result<ir::Outcome> walk_plan(const GoldenCase& g) {
  WEFT_TRY(const ir::Plan plan, planner::plan(g.pattern, bind_of(g), host_target()));
  return ir::interpret_plan(plan, g.shape, g.q, g.k, g.v, g.inputs);
}

Result<ir::Outcome> run_on(const GoldenCase& g, const weft::Target& target) {
  WEFT_TRY(const auto kernel, testing::AnyKernel::make(g.pattern, bind_of(g), target));
  return kernel.run(g.shape, g.q, g.k, g.v, g.inputs);
}

Result<ir::Outcome> run_on_cpu(const GoldenCase& g) { return run_on(g, host_target()); }
Result<ir::Outcome> emulate_sm_61(const GoldenCase& g) { return run_on(g, find_target("sm_61").value()); }

/// Cases with constructs that kernels do not have yet: refused by name, never computed wrongly.
std::string refused(const GoldenCase& g) {
  const auto plan = planner::plan(g.pattern, bind_of(g), host_target());
  if (plan.ok() || plan.error().diagnostics.empty()) return {};
  return plan.error().diagnostics.front().message;
}

constexpr Target kTargets[] = {
    {"interpreter", interpret, skip_nothing},
    {"plan", walk_plan, refused},
    {"cpu", run_on_cpu, refused},
    {"sm_61", emulate_sm_61, refused},
};

class Golden : public ::testing::TestWithParam<std::tuple<Target, std::string>> {};

TEST_P(Golden, Case) {
  const auto& [target, name] = GetParam();
  const auto golden = load(name);
  ASSERT_TRUE(golden.ok()) << golden.error().message;
  if (const std::string reason = target.skip(golden.value()); !reason.empty()) GTEST_SKIP() << reason;
  const auto found = target.run(golden.value());
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(difference(golden.value(), found.value()), "");
}

INSTANTIATE_TEST_SUITE_P(, Golden, ::testing::Combine(::testing::ValuesIn(kTargets), ::testing::ValuesIn(case_names())),
                         [](const auto& row) {
                           return std::string(std::get<0>(row.param).name) + "_" + std::get<1>(row.param);
                         });

TEST(GoldenCoverage, KernelsRunTheseCases) {
  int run = 0;
  for (const auto& name : case_names()) {
    const auto golden = load(name);
    ASSERT_TRUE(golden.ok());
    run += refused(*golden).empty() ? 1 : 0;
  }
  EXPECT_GE(run, 45) << "constructs that kernels had are refused now";
}

/// The comparison itself must be able to fail.
TEST(GoldenComparison, SeesWhatIsWrong) {
  const auto golden = load("flex_strict_causal");
  ASSERT_TRUE(golden.ok() && golden.value().lse);
  ir::Outcome outcome{.o = golden.value().o, .lse = *golden.value().lse, .branch_lse = {}};
  EXPECT_EQ(difference(golden.value(), outcome), "");
  outcome.o.data[700] += 1.5 * golden.value().bounds.o;
  EXPECT_NE(difference(golden.value(), outcome).find("o[700] is"), std::string::npos);
  outcome.o.data[700] = std::nan("");
  EXPECT_NE(difference(golden.value(), outcome), "");
  outcome.o = golden.value().o;
  ASSERT_TRUE(std::isinf(outcome.lse.data[0]));
  outcome.lse.data[0] = -1e9;
  EXPECT_NE(difference(golden.value(), outcome).find("lse[0] is"), std::string::npos);
  EXPECT_GT(case_names().size(), 80U);
}

}  // namespace
}  // namespace weft::golden
