#include "tests/programs/launches.h"
#include "tests/support/effort.h"
#include "tests/support/random_program.h"

#include <weft/weft.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

/// A row's bits do not tell which others, and which other heads, were computed with it: any slice of a sequence and of
/// the heads has those of the whole (semantics, section 10).
namespace weft::test {
namespace {

/// Does the launch say that no slice of the pattern can be computed?
bool is_refused(const std::string& what) {
  return what.find("a slice of the rows has not all of them") != std::string::npos;
}

/// `some` slices of a program, drawn by its seed; how many were compared.
int compare(const Program& program, const std::string& target, int some) {
  Launches launches(program, target);
  if (!launches.ok()) return 0;
  const auto n_q = program.shape.n_q;
  const auto whole = launches.run(0, n_q);
  EXPECT_TRUE(whole.ok()) << (whole.ok() ? "" : whole.error().message) << "\n" << to_file(program);
  if (!whole || n_q < 2) return 0;
  std::mt19937_64 random(program.seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int i = 0; i < some; ++i) {
    const std::int64_t rows = i == 0 ? 1 : 1 + below(n_q - 1), begin = below(n_q - rows + 1);
    const auto what = launches.difference(*whole, begin, begin + rows);
    if (is_refused(what)) return 0;
    EXPECT_EQ(what, "") << target << ", seed " << program.seed << "\n" << to_file(program);
    if (!what.empty()) return 0;
  }
  return some;
}

/// `some` slices of a program's heads, of all rows and of some; how many were compared.
int compare_heads(const Program& program, const std::string& target, int some) {
  const auto& s = program.shape;
  Launches launches(program, target);
  if (!launches.ok() || s.kv_heads < 2) return 0;
  const auto whole = launches.run(0, s.n_q);
  EXPECT_TRUE(whole.ok()) << (whole.ok() ? "" : whole.error().message) << "\n" << to_file(program);
  if (!whole) return 0;
  std::mt19937_64 random(program.seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const std::int64_t group = s.heads / s.kv_heads;
  for (int i = 0; i < some; ++i) {
    const std::int64_t kv = 1 + below(s.kv_heads - 1), first = i == 0 ? s.kv_heads - kv : below(s.kv_heads - kv + 1);
    const std::int64_t begin = i % 2 == 0 ? 0 : below(s.n_q);
    auto what = launches.difference(*whole, begin, s.n_q, true, {.first = first * group, .count = kv * group});
    if (is_refused(what)) what = {};
    EXPECT_EQ(what, "") << target << ", seed " << program.seed << "\n" << to_file(program);
    if (!what.empty()) return 0;
  }
  return some;
}

struct Way {
  const char* target;
  int programs;
  std::int64_t most_tokens;
  ir::DType dtype = ir::DType::f32;
};

class RandomSlices : public ::testing::TestWithParam<Way> {};

TEST_P(RandomSlices, HaveTheBitsOfTheWhole) {
  const Way& way = GetParam();
  int compared = 0;
  const int programs = programs_on(way.target, way.programs, 2);
  for (int i = 0; i < programs; ++i) {
    const auto seed = 9'000'000 + static_cast<std::uint64_t>(i);
    Program program = random_program(seed, {.most_tokens = way.most_tokens, .most_heads = 3, .nesting = 2});
    program.dtype = way.dtype;
    compared += compare(program, way.target, 4) > 0 ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, programs / 3);
}

TEST_P(RandomSlices, OfHeadsHaveTheBitsOfTheWhole) {
  const Way& way = GetParam();
  int compared = 0;
  const int programs = programs_on(way.target, way.programs, 2);
  std::uint64_t seed = 9'100'000;
  for (int tried = 0; tried < programs; ++seed) {
    Program program = random_program(seed, {.most_tokens = way.most_tokens, .most_heads = 6, .nesting = 2});
    if (program.shape.kv_heads < 2) continue;
    program.dtype = way.dtype;
    ++tried;
    compared += compare_heads(program, way.target, 3) > 0 ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, programs / 3);
}

INSTANTIATE_TEST_SUITE_P(, RandomSlices,
                         ::testing::Values(Way{"cpu", 60, 200}, Way{"cpu:x86-64", 30, 200}, Way{"interpreter", 20, 60},
                                           Way{"emulate:sm_61", effort(5, 8), 150},
                                           Way{"emulate:sm_80", effort(5, 8), 150, ir::DType::f16}),
                         [](const auto& row) { return fmt::format("way_{}", row.index); });

/// What made bits depend on the launch, or on the number of a head: tiles, zones, classes of rows, forms for few rows,
/// chunks of keys, phases.
constexpr const char* kTexts[] = {
    "pattern p { keep window(256, 0); }",
    "pattern p { branches dilated(segments: [64, 128, 256], rates: [1, 2, 4]); }",
    "pattern p { branches dilated(segments: [64, 128], rates: [1, 2]); keep causal; combine mean; }",
    "pattern p { keep blocks(32, window(1, 1) | global(1) | random(2, seed: 3)); }",
    "pattern p { branches dilated(segments: [1000, 1537, 1700], rates: [1, 2, 3]); }",  // several phases
    "pattern p { input doc: i32[batch, tokens]; keep document(doc); keep causal; }",
    "pattern p { keep where((q - k) % 3 != 1) & window(90, 20); }",
    "pattern p { keep lag(7) | window(9, 0); score s - 0.1 * (h + 1) * (q - k); }",
    "pattern p { keep causal; dropout 0.2; }",
    "pattern p { input gate: f32[queries]; keep causal; score s + gate[q]; }",
    "pattern p { branches dilated(segments: [64, 100], rates: [4, 3], heads: groups); }",
    "pattern p { input bias: f32[batch, heads, keys]; keep causal; score s + alibi(h) * (k - q) + bias[b, h, k]; }",
    "pattern p { keep random(9, seed: 4) | window(20, 0); }",
};

struct Sizes {
  const char* target;
  std::int64_t n_q, n_k;
  std::vector<std::int64_t> offset;
  ir::DType dtype = ir::DType::f32;
};

class CutAnywhere : public ::testing::TestWithParam<Sizes> {};

TEST_P(CutAnywhere, HaveTheBitsOfTheWhole) {
  const Sizes& sizes = GetParam();
  const bool slow = std::string(sizes.target).starts_with("emulate");
  const int slices = slow ? 3 : 5;
  int compared = 0, number = 0, texts = 0;
  for (const char* text : kTexts) {
    // Few rows and many take turns, too.
    if (!takes_turn_on(sizes.target, static_cast<std::size_t>(number + (sizes.n_q < 100)))) {
      ++number;
      continue;
    }
    ++texts;
    const Program program{.text = text,
                          .pattern = "p",
                          .shape = {.batch = 2,
                                    .n_q = sizes.n_q,
                                    .n_k = sizes.n_k,
                                    .heads = slow ? 2 : 4,
                                    .kv_heads = slow ? 1 : 2,
                                    .d = 16,
                                    .d_v = 16,
                                    .offset = sizes.offset},
                          .dtype = sizes.dtype,
                          .branch_lse = number++ % 2 != 0,
                          .seed = 5};
    compared += compare(program, sizes.target, slices);
    Program heads = program;
    if (slow) heads.shape.heads = 4, heads.shape.kv_heads = 2;
    compared += compare_heads(heads, sizes.target, slow ? 1 : 2);
  }
  EXPECT_EQ(compared, (slices + (slow ? 1 : 2)) * texts);
}

INSTANTIATE_TEST_SUITE_P(, CutAnywhere,
                         ::testing::Values(Sizes{"cpu", 512, 2051, {600}}, Sizes{"cpu", 700, 700, {0}},
                                           Sizes{"cpu", 6, 900, {890, 400}}, Sizes{"cpu:x86-64", 300, 400, {37, 100}},
                                           Sizes{"emulate:sm_61", 140, 180, {20, 40}},
                                           Sizes{"emulate:sm_61", 12, 2000, {1527}},
                                           Sizes{"emulate:sm_80", 140, 180, {20, 40}, ir::DType::f16},
                                           Sizes{"emulate:sm_80", 12, 2000, {1527}, ir::DType::f16}),
                         [](const auto& row) { return fmt::format("way_{}", row.index); });

/// A launch that does not say what it is a slice of has tiles of its own: were its bits the same, nothing were shown.
TEST(Slices, ThatNobodyIsToldOfDiffer) {
  const Program program{
      .text = "pattern p { keep window(256, 0); }",
      .pattern = "p",
      .shape = {.n_q = 512, .n_k = 2051, .heads = 1, .kv_heads = 1, .d = 16, .d_v = 16, .offset = {600}},
      .seed = 5};
  Launches launches(program, "cpu");
  ASSERT_TRUE(launches.ok());
  const auto whole = launches.run(0, 512);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(launches.difference(*whole, 10, 512), "");
  EXPECT_NE(launches.difference(*whole, 10, 512, false), "");
}

}  // namespace
}  // namespace weft::test
