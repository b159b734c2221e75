#include "runtime/engine/front.h"
#include "runtime/engine/reference.h"
#include "tests/support/program.h"
#include "tests/support/random_program.h"
#include "tests/support/stored.h"

#include <weft/weft.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>

/// A row's bits do not tell which others, and which other heads, were computed with it: any slice of a sequence and of
/// the heads has those of the whole (semantics, section 10).
namespace weft::test {
namespace {

bool alike(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

struct Results {
  Bytes out;
  std::vector<float> lse, branch_lse;
};

struct Heads {
  std::int64_t first = 0, count = 0;  ///< 0: all
};

/// A program whose values are made, and a kernel of it.
class Launches {
 public:
  Launches(const Program& program, const std::string& target)
      : program_(program), dtype_(from_ir(program.dtype)), pattern_(lowered(program)) {
    if (!pattern_) return;
    const auto& s = program.shape;
    const auto tensors = draw_tensors(s, program.dtype, program.seed);
    q_ = stored(tensors.q, dtype_);
    k_ = stored(tensors.k, dtype_);
    v_ = stored(tensors.v, dtype_);
    const auto values = draw_inputs(*pattern_, s, program.seed);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto& input = pattern_->inputs[i];
      inputs_.push_back(stored(values[i], from_ir(input.type)));
      const auto view = dense(inputs_.back().data(), from_ir(input.type), values[i].shape);
      named_.push_back({.name = input.name, .view = view});
    }
    std::map<std::string, std::string> params;
    for (const auto& define : program.defines) {
      const auto at = define.find('=');
      params[define.substr(0, at)] = define.substr(at + 1);
    }
    static const Engine engine({.no_cache = true});
    kernel_ = engine.compile(program.text, {.pattern = program.pattern,
                                            .params = params,
                                            .dim = s.d,
                                            .dim_v = s.d_v,
                                            .dtype = dtype_,
                                            .branch_lse = program.branch_lse,
                                            .target = target});
  }

  bool ok() const { return kernel_.ok(); }

  /// Rows [begin, end), and heads; where that is not all, as a slice, or untold as a launch of its own.
  Result<Results> run(std::int64_t begin, std::int64_t end, bool told = true, Heads of = {}) {
    const auto& s = program_.shape;
    const std::int64_t group = s.heads / s.kv_heads, heads = of.count > 0 ? of.count : s.heads;
    const std::int64_t rows = end - begin, row = s.heads * s.d, row_out = heads * s.d_v;
    const auto branches = std::ssize(pattern_->branches);
    Results results;
    results.out.assign(static_cast<std::size_t>(s.batch * rows * row_out) * size_of(dtype_), std::byte{0xff});
    results.lse.assign(static_cast<std::size_t>(s.batch * heads * rows), -7);
    results.branch_lse.assign(static_cast<std::size_t>(branches) * results.lse.size(), -7);
    RunArgs args{.q = dense_view(q_.data(), dtype_, {s.batch, rows, s.heads, s.d}),
                 .k = dense_view(k_.data(), dtype_, {s.batch, s.n_k, s.kv_heads, s.d}),
                 .v = dense_view(v_.data(), dtype_, {s.batch, s.n_k, s.kv_heads, s.d_v}),
                 .out = dense_output(results.out.data(), dtype_, {s.batch, rows, heads, s.d_v}),
                 .inputs = named_,
                 .offset = s.offset,
                 .dropout_seed = s.dropout_seed};
    args.q.data = q_.data() + static_cast<std::size_t>(begin * row + of.first * s.d) * size_of(dtype_);
    args.q.stride[0] = s.n_q * row;
    args.k.data = k_.data() + static_cast<std::size_t>(of.first / group * s.d) * size_of(dtype_);
    args.v.data = v_.data() + static_cast<std::size_t>(of.first / group * s.d_v) * size_of(dtype_);
    args.q.extent[2] = heads;
    args.k.extent[2] = args.v.extent[2] = heads / group;
    if (!ir::per_branch(pattern_->combine) && ir::has_lse(*pattern_))
      args.lse = dense_output(results.lse.data(), DType::f32, {s.batch, heads, rows});
    if (program_.branch_lse)
      args.branch_lse = dense_output(results.branch_lse.data(), DType::f32, {branches, s.batch, heads, rows});
    if (told && rows < s.n_q) args.slice = {.first = begin, .of = s.n_q};
    if (told && heads < s.heads) args.head_slice = {.first = of.first, .of = s.heads};
    const std::array<std::int64_t, 1> moved = {s.offset_of(0) + begin};
    if (!told) args.offset = moved;
    WEFT_CHECK(kernel_->run(args));
    return results;
  }

  /// The rows of a slice that differ from the whole's, in words; empty: none.
  std::string difference(const Results& whole, std::int64_t begin, std::int64_t end, bool told = true, Heads of = {}) {
    const auto slice = run(begin, end, told, of);
    if (!slice) return slice.error().message;
    const auto& s = program_.shape;
    const std::int64_t rows = end - begin, heads = of.count > 0 ? of.count : s.heads;
    const auto head = static_cast<std::size_t>(s.d_v) * size_of(dtype_), bytes = static_cast<std::size_t>(heads) * head;
    std::string out;
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto* const mine = &slice->out[static_cast<std::size_t>(b * rows + r) * bytes];
        const auto* const its =
            &whole.out[static_cast<std::size_t>((b * s.n_q + begin + r) * s.heads + of.first) * head];
        bool same = std::memcmp(mine, its, bytes) == 0;
        for (std::int64_t h = 0; h < heads; ++h) {
          const auto at = static_cast<std::size_t>((b * heads + h) * rows + r);
          const auto of_whole = static_cast<std::size_t>((b * s.heads + of.first + h) * s.n_q + begin + r);
          same = same && alike(slice->lse[at], whole.lse[of_whole]);
          for (std::size_t i = 0; i < pattern_->branches.size(); ++i) {
            same = same && alike(slice->branch_lse[i * slice->lse.size() + at],
                                 whole.branch_lse[i * whole.lse.size() + of_whole]);
          }
        }
        if (!same) out += fmt::format(" {}:{}", b, begin + r);
      }
    }
    if (!out.empty()) {
      out = fmt::format("rows {}..{} of {}, heads {}..{}: entry and row{} differ", begin, end, s.n_q, of.first,
                        of.first + heads, out);
    }
    return out;
  }

 private:
  const Program& program_;
  DType dtype_;
  Result<ir::Pattern> pattern_;
  Bytes q_, k_, v_;
  std::vector<Bytes> inputs_;
  std::vector<NamedInput> named_;
  Result<Kernel> kernel_ = user_error("nothing was compiled");
};

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
  const int programs = way.programs * (std::getenv("WEFT_TEST_ALL") != nullptr ? 4 : 1);
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
  const int programs = way.programs * (std::getenv("WEFT_TEST_ALL") != nullptr ? 4 : 1);
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
                                           Way{"emulate:sm_61", 8, 150}, Way{"emulate:sm_80", 8, 150, ir::DType::f16}),
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
  int compared = 0, number = 0;
  for (const char* text : kTexts) {
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
  EXPECT_EQ(compared, (slices + (slow ? 1 : 2)) * static_cast<int>(std::size(kTexts)));
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
