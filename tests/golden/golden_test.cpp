#include "tests/golden/case.h"
#include "tests/golden/ways.h"

#include <gtest/gtest.h>

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
}

INSTANTIATE_TEST_SUITE_P(, Golden, ::testing::Combine(::testing::ValuesIn(kWays), ::testing::ValuesIn(case_names())),
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
