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

constexpr Target kTargets[] = {
    {"interpreter", interpret, skip_nothing},
};

class Golden : public testing::TestWithParam<std::tuple<Target, std::string>> {};

TEST_P(Golden, Case) {
  const auto& [target, name] = GetParam();
  const auto golden = load(name);
  ASSERT_TRUE(golden.ok()) << golden.error().message;
  if (const std::string reason = target.skip(golden.value()); !reason.empty()) GTEST_SKIP() << reason;
  const auto found = target.run(golden.value());
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(difference(golden.value(), found.value()), "");
}

INSTANTIATE_TEST_SUITE_P(, Golden, testing::Combine(testing::ValuesIn(kTargets), testing::ValuesIn(case_names())),
                         [](const auto& row) {
                           return std::string(std::get<0>(row.param).name) + "_" + std::get<1>(row.param);
                         });

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
