#include "compiler/base/float16.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft {
namespace {

TEST(Float16, EveryHalfSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    else
      EXPECT_EQ(float_to_half(value), half);
  }
}

TEST(Float16, EveryBfloatSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = bf16_to_float(half);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value))));
    else
      EXPECT_EQ(float_to_bf16(value), half);
  }
}

TEST(Float16, KnownValues) {
  EXPECT_EQ(half_to_float(0x3c00), 1.0F);
  EXPECT_EQ(half_to_float(0x7bff), 65504.0F);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(half_to_float(0xc000), -2.0F);
  EXPECT_TRUE(std::isinf(half_to_float(0x7c00)));
  EXPECT_EQ(bf16_to_float(0x3f80), 1.0F);
}

/// Between every two neighbours: the midpoint goes to the even one, anything beyond it up.
TEST(Float16, RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const float middle = (half_to_float(low) + half_to_float(high)) / 2;
    EXPECT_EQ(float_to_half(middle), (bits & 1U) == 0 ? low : high) << bits;
    EXPECT_EQ(float_to_half(std::nextafter(middle, 1e9F)), high) << bits;
    EXPECT_EQ(float_to_half(std::nextafter(middle, -1e9F)), low) << bits;
  }
  EXPECT_EQ(float_to_half(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_bf16(std::nextafter(bf16_to_float(0x3f80) + 0x1p-8F, 2.0F)), 0x3f81);
  EXPECT_EQ(float_to_bf16(bf16_to_float(0x3f80) + 0x1p-8F), 0x3f80);
}

}  // namespace
}  // namespace weft
