#include "tests/device/gpu_ring.h"
#include "tests/machine/fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

/// Rings whose ranks' rows lie on a GPU, by its machine code.
namespace weft::test {
namespace {

class GpuRing : public ::testing::TestWithParam<int> {};

TEST_P(GpuRing, HasTheBitsOfOneLaunch) {
  if (const auto why = become(GetParam()); !why.empty()) GTEST_SKIP() << why;
  std::vector<RingOptions> options = {{}, {.layout = RingLayout::zigzag}, {.carrier = RingCarrier::heads}};
  // Row by row: many launches.
  if (GetParam() == 80) options.push_back({.layout = RingLayout::striped});
  EXPECT_EQ(wrong_with_gpu_rings(engine_of_machine(), "cuda", options), "");
}

TEST_P(GpuRing, CutsKeys) {
  if (const auto why = become(GetParam()); !why.empty()) GTEST_SKIP() << why;
  EXPECT_EQ(wrong_with_gpu_rings_that_cut(engine_of_machine(), "cuda"), "");
}

INSTANTIATE_TEST_SUITE_P(, GpuRing, ::testing::ValuesIn(kArchitectures),
                         [](const auto& row) { return fmt::format("sm_{}", row.param); });

}  // namespace
}  // namespace weft::test
