#include "tests/device/gpu_packed.h"
#include "tests/machine/fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

/// Packed sequences, which one launch computes together, by machine code.
namespace weft::test {
namespace {

class GpuPacked : public ::testing::TestWithParam<int> {};

TEST_P(GpuPacked, HasTheBitsOfEachSequence) {
  if (const auto why = become(GetParam()); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(wrong_with_packed_sequences(engine_of_machine(), "cuda", {DType::f16}), "");
}

INSTANTIATE_TEST_SUITE_P(, GpuPacked, ::testing::ValuesIn(kArchitectures),
                         [](const auto& row) { return fmt::format("sm_{}", row.param); });

}  // namespace
}  // namespace weft::test
