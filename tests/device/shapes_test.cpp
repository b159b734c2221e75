/// Odd shapes on this machine's GPU: borders of tiles and of blocks, dims that no instruction likes, few rows with many
/// keys, groups of heads. Label `device`, see device_test.cpp.

#include "compiler/ir/lower.h"
#include "compiler/ir/pattern_interpreter.h"
#include "dsl/parse.h"
#include "tests/codegen/random_check.h"
#include "tests/device/device_runner.h"
#include "tests/device/engine_runner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iterator>
#include <tuple>

namespace weft::testing {
namespace {

struct OddShape {
  std::string name;
  ir::Shape shape;
};

/// Rows and keys around the sizes of tiles, and the shapes of decoding, cross attention and grouped queries.
std::vector<OddShape> odd_shapes() {
  std::vector<OddShape> out;
  for (std::int64_t n : {1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 257}) {
    out.push_back(
        {fmt::format("tokens {}", n), {.batch = 1, .n_q = n, .n_k = n, .heads = 2, .kv_heads = 2, .d = 64, .d_v = 64}});
  }
  for (std::int64_t d : {8, 24, 40, 72, 80, 96, 104, 128, 136, 256}) {
    out.push_back(
        {fmt::format("dim {}", d), {.batch = 1, .n_q = 70, .n_k = 70, .heads = 1, .kv_heads = 1, .d = d, .d_v = d}});
  }
  out.push_back({"dim 40, values 128", {.n_q = 70, .n_k = 70, .heads = 1, .kv_heads = 1, .d = 40, .d_v = 128}});
  out.push_back({"dim 128, values 16", {.n_q = 70, .n_k = 70, .heads = 1, .kv_heads = 1, .d = 128, .d_v = 16}});
  out.push_back({"one row", {.batch = 2, .n_q = 1, .n_k = 4099, .heads = 8, .kv_heads = 2, .d = 128, .d_v = 128}});
  out.push_back({"few rows", {.batch = 3, .n_q = 5, .n_k = 1031, .heads = 6, .kv_heads = 3, .d = 64, .d_v = 64}});
  out.push_back({"more rows than keys", {.n_q = 131, .n_k = 37, .heads = 3, .kv_heads = 1, .d = 64, .d_v = 64}});
  out.push_back(
      {"batch 5, heads 7", {.batch = 5, .n_q = 90, .n_k = 90, .heads = 7, .kv_heads = 7, .d = 32, .d_v = 32}});
  out.push_back(
      {"offsets",
       {.batch = 3, .n_q = 33, .n_k = 200, .heads = 2, .kv_heads = 1, .d = 64, .d_v = 64, .offset = {0, 150, -5}}});
  return out;
}

constexpr const char* kPatterns[] = {
    "pattern p { }",
    "pattern p { keep causal; }",
    "pattern p { keep window(40, 3); }",
    "pattern p { branches dilated(segments: [32, 64, 128], rates: [1, 2, 4]); keep causal; }",
    "pattern p { branches dilated(segments: [48, 100], rates: [3, 7]); }",
    "pattern p { branch blocks(16, global(1) | window(1, 1) | random(2, seed: 3)); }",
    "pattern p { keep blocks(16, top(2, by: pooled, causal: true)); }",
    "pattern p { keep where((q * q + k) % 5 < 3); }",
    "pattern p { keep causal; score s - 0.1 * abs(q - k); }",
    "pattern p { branch causal; branch window(9, 9); combine sum; }",
};

ir::Pattern pattern_of(const std::string& text) {
  const auto file = dsl::parse({"odd.weft", text});
  EXPECT_TRUE(file.ok()) << text;
  return ir::lower(*file, "p", {}).value();
}

/// One kernel for all lengths, as users have it.
struct KnownKernel : EngineKernel {
  static Result<EngineKernel> make(const ir::Pattern& pattern, const ir::Bind& bind, const Target&) {
    static const Engine engine({.no_cache = true});
    return EngineKernel::make(engine, pattern, bind);
  }
};

class DeviceShapes : public ::testing::TestWithParam<std::tuple<ir::DType, int>> {};

TEST_P(DeviceShapes, MatchTheInterpreter) {
  const auto target = device_row();
  if (!target) GTEST_SKIP() << target.error().message;
  const auto as_they_are = [](const RunOptions& options, std::uint64_t) { return options; };
  const auto [dtype, number] = GetParam();
  const char* text = kPatterns[number];
  const auto pattern = pattern_of(text);
  std::uint64_t seed = 1000 * static_cast<std::uint64_t>(number);
  for (const auto& [name, shape] : odd_shapes()) {
    const test::RandomProblem problem{.pattern = pattern, .shape = shape, .inputs = {}};
    EXPECT_EQ(check_random<KnownKernel>(problem, *target, dtype, ++seed, false, as_they_are), "")
        << text << " with " << name;
  }
}

INSTANTIATE_TEST_SUITE_P(, DeviceShapes,
                         ::testing::Combine(::testing::Values(ir::DType::f32, ir::DType::f16, ir::DType::bf16),
                                            ::testing::Range(0, static_cast<int>(std::size(kPatterns)))),
                         [](const auto& of) {
                           return fmt::format("{}_{}", ir::to_string(std::get<0>(of.param)), std::get<1>(of.param));
                         });

}  // namespace
}  // namespace weft::testing
