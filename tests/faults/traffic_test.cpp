#include "compiler/planner/planner.h"
#include "tests/codegen/emulated_runner.h"
#include "tests/faults/fault.h"

#include <gtest/gtest.h>

/// Rows that meet in a bank of shared memory change no number: the emulator's counts show them.
namespace weft::test {
namespace {

struct Counted {
  const char* target;
  std::vector<Fault> faults;
};
const std::vector<Counted> kCounted = {{"sm_61", {{"swizzle_forgotten"}}},
                                       {"sm_75", {{"rows_of_k_in_two_banks"}}},
                                       {"sm_80", {{"rows_of_k_in_two_banks"}}}};
const bool kListed = listed(kCounted);

/// Of shared memory, where every query sees every key.
double conflicts_an_access(const Target& target) {
  constexpr std::int64_t kTokens = 256, kDim = 64;
  ir::Pattern pattern;
  pattern.name = "counted";
  pattern.branches.push_back({.set = ir::make_set(ir::SetKind::all), .heads = {}, .range = {}});
  const auto kernel = testing::EmulatedKernel::make(pattern, {.d = kDim, .d_v = kDim, .dtype = ir::DType::f16}, target,
                                                    {.count = true});
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  const ir::Shape shape{.batch = 1, .n_q = kTokens, .n_k = kTokens, .heads = 1, .kv_heads = 1, .d = kDim, .d_v = kDim};
  const auto x = testing::rounded(testing::normal({1, kTokens, 1, kDim}, 1), ir::DType::f16);
  emulate::Report report;
  EXPECT_TRUE(kernel->run(shape, x, x, x, {}, {}, &report).ok());
  return static_cast<double>(report.shared().conflicts) / static_cast<double>(report.shared().units);
}

class Banks : public ::testing::TestWithParam<Counted> {};

TEST_P(Banks, ShowRowsThatMeet) {
  const Target target = find_target(GetParam().target).value();
  EXPECT_LT(conflicts_an_access(target), 0.02);
  for (const Fault& fault : GetParam().faults) {
    const Planted planted(fault.name);
    EXPECT_GT(conflicts_an_access(target), 0.1) << fault.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, Banks, ::testing::ValuesIn(kCounted),
                         [](const auto& of) { return std::string(of.param.target); });

}  // namespace
}  // namespace weft::test
