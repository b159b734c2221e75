#include "compiler/ir/pattern_interpreter.h"
#include "tests/codegen/any_kernel.h"
#include "tests/golden/case.h"
#include "tests/golden/ways.h"
#include "tests/support/effort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace weft::golden {
namespace {

class Golden : public ::testing::TestWithParam<std::tuple<Way, std::string>> {};

TEST_P(Golden, Case) {
  const auto& [way, name] = GetParam();
  const auto golden = load(name);
  ASSERT_TRUE(golden.ok()) << golden.error().message;
  if (const std::string reason = way.skip(golden.value()); !reason.empty()) GTEST_SKIP() << reason;
  const auto found = way.run(golden.value());
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(difference(golden.value(), found.value()), "");
  if (!golden->gradients || way.gradients == nullptr) return;
  const auto gradients = way.gradients(golden.value());
  ASSERT_TRUE(gradients.ok()) << gradients.error().message;
  EXPECT_EQ(difference(golden.value(), gradients.value()), "");
}

INSTANTIATE_TEST_SUITE_P(, Golden, ::testing::Combine(::testing::ValuesIn(kWays), ::testing::ValuesIn(case_names())),
                         [](const auto& row) {
                           return std::string(std::get<0>(row.param).name) + "_" + std::get<1>(row.param);
                         });

double largest(const ir::Tensor& t) {
  double most = 0;
  for (double x : t.data) most = std::max(most, std::fabs(x));
  return most;
}

/// The cases in f16, on kernels by matrix instructions, against what the interpreter, which the cases check above,
/// makes of the rounded tensors. Every fourth; ./dev test --all runs every second.
TEST(GoldenOnMatrices, InHalves) {
  const Target target = find_target("sm_80").value();
  const std::size_t step = test::effort(4U, 2U);
  const auto names = case_names();
  int run = 0;
  for (std::size_t i = 0; i < names.size(); i += step) {
    auto golden = load(names[i]);
    ASSERT_TRUE(golden.ok()) << names[i];
    GoldenCase& g = golden.value();
    g.dtype = ir::DType::f16;
    for (auto* t : {&g.q, &g.k, &g.v}) *t = testing::rounded(*t, g.dtype);
    const auto kernel =
        testing::AnyKernel::make(g.pattern, {.d = g.shape.d, .d_v = g.shape.d_v, .dtype = g.dtype}, target);
    if (!kernel.ok() && !kernel.error().diagnostics.empty()) continue;
    ASSERT_TRUE(kernel.ok()) << names[i] << ": " << kernel.error().message;
    EXPECT_EQ(kernel->plan().choices.kernel_class, ir::KernelClass::mma);
    const auto want = ir::interpret(g.pattern, g.shape, g.q, g.k, g.v, g.inputs);
    ASSERT_TRUE(want.ok()) << names[i];
    g.o = want->o;
    if (g.lse) g.lse = want->lse;
    g.bounds = ir::error_bounds(g.pattern, g.dtype, g.shape.n_k, largest(g.v), want->max_abs_score);
    const auto found = kernel->run(g.shape, g.q, g.k, g.v, g.inputs);
    ASSERT_TRUE(found.ok()) << names[i] << ": " << found.error().message;
    EXPECT_EQ(difference(g, found.value()), "") << names[i];
    ++run;
  }
  EXPECT_GE(run, static_cast<int>(names.size()) / static_cast<int>(2 * step));
}

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

/// Of every tensor, and of every case that has gradients.
TEST(GoldenComparison, SeesWrongGradients) {
  int cases = 0;
  for (const auto& name : case_names()) {
    const auto golden = load(name);
    ASSERT_TRUE(golden.ok());
    if (!golden->gradients) continue;
    ++cases;
    ir::Gradients found = golden->gradients->meant;
    EXPECT_EQ(difference(golden.value(), found), "");
    std::vector<ir::Tensor*> tensors = {&found.dq, &found.dk, &found.dv};
    for (auto& input : found.inputs) tensors.push_back(&input);
    for (ir::Tensor* t : tensors) {
      if (t->data.empty()) continue;  // of an input of integers
      const ir::Tensor right = *t;
      double& one = t->data[t->data.size() / 2];
      one += 1.5 * golden->gradients->bound * largest(right);
      EXPECT_NE(difference(golden.value(), found), "") << name;
      *t = right;
      t->data[t->data.size() / 2] = std::nan("");
      EXPECT_NE(difference(golden.value(), found), "") << name;
      *t = right;
    }
  }
  EXPECT_EQ(cases, 10);
}

}  // namespace
}  // namespace weft::golden
