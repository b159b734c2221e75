/// Golden cases as machine code: O, LSE and gradients of kernels that NVRTC compiled, without a GPU.

#include "tests/device/engine_runner.h"
#include "tests/golden/gradients.h"
#include "tests/machine/fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ostream>

namespace weft::test {
namespace {

struct Row {
  int sm;
  std::string name;
};
void PrintTo(const Row& row, std::ostream* out) { *out << "sm_" << row.sm << ' ' << row.name; }

std::vector<Row> rows() {
  std::vector<Row> out;
  std::size_t number = 0;
  for (const std::string& name : golden::case_names()) {
    for (const int sm : kArchitectures) {
      if (is_run_on(sm, number, 3)) out.push_back({sm, name});
    }
    ++number;
  }
  return out;
}

class MachineGolden : public ::testing::TestWithParam<Row> {};

TEST_P(MachineGolden, Case) {
  const auto& [sm, name] = GetParam();
  if (const auto why = become(sm); !why.empty()) GTEST_SKIP() << why;
  const auto golden = golden::load(name);
  ASSERT_TRUE(golden.ok()) << golden.error().message;
  const Engine engine = engine_of_machine();
  const ir::Bind bind{.d = golden->shape.d, .d_v = golden->shape.d_v, .dtype = golden->dtype};
  const auto kernel = testing::EngineKernel::make(engine, golden->pattern, bind, golden->shape);
  if (!kernel && kernel.error().kind == ErrorKind::user) GTEST_SKIP() << kernel.error().message;  // not in kernels yet
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto found = kernel->run(golden->shape, golden->q, golden->k, golden->v, golden->inputs);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(golden::difference(*golden, *found), "");
  EXPECT_FALSE(the_machine().launches.empty()) << "it ran elsewhere";
}

INSTANTIATE_TEST_SUITE_P(, MachineGolden, ::testing::ValuesIn(rows()),
                         [](const auto& of) { return fmt::format("sm_{}_{}", of.param.sm, of.param.name); });

class MachineGoldenGradients : public ::testing::TestWithParam<int> {};

TEST_P(MachineGoldenGradients, AreTheCases) {
  if (const auto why = become(GetParam()); !why.empty()) GTEST_SKIP() << why;
  int compared = 0;
  std::size_t number = 0;
  for (const std::string& name : golden::case_names()) {
    const auto golden = golden::load(name);
    ASSERT_TRUE(golden.ok()) << golden.error().message;
    if (!golden->gradients || !is_run_on(GetParam(), number++, 1)) continue;
    const auto& g = *golden;
    const auto kernel = BackwardKernel::make(engine_of_machine(), g.pattern, g.shape, g.dtype, "cuda");
    ASSERT_TRUE(kernel.ok()) << name << ": " << kernel.error().message;
    const auto found = golden::gradients_by(*kernel, g);
    ASSERT_TRUE(found.ok()) << name << ": " << found.error().message;
    EXPECT_EQ(golden::difference(g, *found), "") << name;
    ++compared;
  }
  EXPECT_GE(compared, 2);
}

INSTANTIATE_TEST_SUITE_P(, MachineGoldenGradients, ::testing::ValuesIn(kArchitectures),
                         [](const auto& of) { return fmt::format("sm_{}", of.param); });

}  // namespace
}  // namespace weft::test
