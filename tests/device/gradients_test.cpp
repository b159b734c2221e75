/// Gradients on this machine's GPU, by the public face: golden cases, random programs, borders of tiles and groups of
/// heads. Label `device`, see device_test.cpp.

#include "tests/golden/gradients.h"
#include "tests/device/device_runner.h"
#include "tests/programs/gradient_checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace weft::test {
namespace {

constexpr const char* kTarget = "cuda";

std::string why_not() {
  const auto row = testing::device_row();
  return row ? std::string() : row.error().message;
}

class DeviceGoldenGradients : public ::testing::TestWithParam<std::string> {};

TEST_P(DeviceGoldenGradients, Case) {
  const auto golden = golden::load(GetParam());
  ASSERT_TRUE(golden.ok()) << golden.error().message;
  if (!golden->gradients) GTEST_SKIP() << "the case has none";
  if (const auto reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  const auto found = golden::gradients_on(*golden, kTarget);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(golden::difference(*golden, *found), "");
}

INSTANTIATE_TEST_SUITE_P(, DeviceGoldenGradients, ::testing::ValuesIn(golden::case_names()),
                         [](const auto& of) { return of.param; });

/// Each program runs twice, and the second time must give the same bits.
class DeviceGradients : public ::testing::TestWithParam<ir::DType> {};

TEST_P(DeviceGradients, OfRandomPrograms) {
  if (const auto reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  check_random_gradients({.target = kTarget, .programs = 24, .most_tokens = 200, .dtype = GetParam()}, 12'000'000);
}

/// Tiles of 64 and 128 rows, steps of 32 to 64 keys, dims that no instruction likes, heads that share keys.
TEST_P(DeviceGradients, OfOddShapes) {
  if (const auto reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  const auto dtype = GetParam();
  constexpr const char* kPatterns[] = {
      "pattern p { }", "pattern p { keep causal; }",
      "pattern p { branches dilated(segments: [32, 64, 128], rates: [1, 2, 4]); keep causal; }"};
  std::vector<ir::Shape> shapes;
  for (const std::int64_t n : {1, 31, 63, 64, 65, 129, 257})
    shapes.push_back({.n_q = n, .n_k = n, .heads = 2, .kv_heads = 2, .d = 64, .d_v = 64});
  for (const std::int64_t d : {8, 40, 96, 128, 136, 256})
    shapes.push_back({.n_q = 70, .n_k = 70, .heads = 1, .kv_heads = 1, .d = d, .d_v = d});
  shapes.push_back({.n_q = 70, .n_k = 70, .heads = 1, .kv_heads = 1, .d = 40, .d_v = 128});
  shapes.push_back({.batch = 2, .n_q = 131, .n_k = 37, .heads = 6, .kv_heads = 2, .d = 64, .d_v = 64});
  for (const char* text : kPatterns) {
    Program program{.text = text, .pattern = "p", .seed = 1};
    for (const auto& shape : shapes) {
      program.shape = shape;
      const auto wrong =
          examine_gradients(program, {.target = kTarget, .programs = 1, .most_tokens = 0, .dtype = dtype});
      EXPECT_EQ(wrong.value_or("not compared"), "")
          << text << ", n " << shape.n_q << ", d " << shape.d << ", d_v " << shape.d_v;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, DeviceGradients, ::testing::Values(ir::DType::f32, ir::DType::f16, ir::DType::bf16),
                         [](const auto& of) { return std::string(ir::to_string(of.param)); });

}  // namespace
}  // namespace weft::test
