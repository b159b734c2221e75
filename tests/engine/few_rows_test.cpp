#include "compiler/base/float16.h"
#include "tests/engine/problem.h"
#include "tests/support/effort.h"
#include "tests/support/pages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

/// Few rows, as in decoding: heads that share K and V stand in one tile. On CPUs only the vectors that have rows are
/// computed.
namespace weft::test {
namespace {

constexpr std::int64_t kBatch = 2, kKvHeads = 2, kKeys = 333;
constexpr std::array<std::int64_t, kBatch> kLengths = {kKeys, kKeys};

struct Results {
  std::vector<float> out, lse;
};

struct Way {
  const char* target;
  std::int64_t dim;
  DType dtype = DType::f32;
};

/// What one query runs; other texts come when they are wanted.
Kernel compiled(const Way& way, const std::string& text, bool paged = false) {
  static const Engine engine({.no_cache = true});
  const RunShape one{.batch = kBatch, .n_q = 1, .n_k = kKeys, .heads = kKvHeads, .kv_heads = kKvHeads};
  auto kernel =
      engine.compile(text, {.dim = way.dim, .dtype = way.dtype, .paged = paged, .shape = one, .target = way.target});
  EXPECT_TRUE(kernel.ok()) << (kernel.ok() ? "" : kernel.error().message);
  return kernel.value();
}

/// Numbers as tensors of a type hold them.
class Stored {
 public:
  Stored(const std::vector<float>& numbers, DType dtype) : floats_(numbers), dtype_(dtype) {
    for (float x : numbers) halves_.push_back(float_to_half(x));
  }
  void* data() { return dtype_ == DType::f32 ? static_cast<void*>(floats_.data()) : halves_.data(); }
  std::vector<float> numbers() const {
    if (dtype_ == DType::f32) return floats_;
    std::vector<float> out;
    for (auto x : halves_) out.push_back(half_to_float(x));
    return out;
  }

 private:
  std::vector<float> floats_;
  std::vector<std::uint16_t> halves_;
  DType dtype_;
};

/// `group` query heads share each head of K and V, or have copies of their own. `page`: keys of a page, or 0.
Results run(const Kernel& kernel, const Way& way, std::int64_t n_q, std::int64_t group, bool copies, bool lse = true,
            std::int64_t page = 0) {
  const auto heads = kKvHeads * group, kv_heads = copies ? heads : kKvHeads, dim = way.dim;
  Stored q(numbers(kBatch * n_q * heads * dim, 1), way.dtype);
  Pages pages({kKeys, kKeys}, std::max<std::int64_t>(page, 1));
  // [batch, key, kv head, dim]
  const auto spread = [&](std::uint32_t seed) {
    const auto shared = numbers(kBatch * kKeys * kKvHeads * dim, seed);
    if (page > 0) return pages.fill(shared.data(), kKvHeads * dim, {0, kKeys});
    if (!copies) return shared;
    std::vector<float> out;
    for (std::int64_t row = 0; row < kBatch * kKeys * kKvHeads; ++row) {
      for (std::int64_t i = 0; i < group; ++i)
        out.insert(out.end(), shared.begin() + row * dim, shared.begin() + (row + 1) * dim);
    }
    return out;
  };
  Stored k(spread(2), way.dtype), v(spread(3), way.dtype);
  Stored out(std::vector<float>(static_cast<std::size_t>(kBatch * n_q * heads * dim), -7), way.dtype);
  Results results;
  results.lse.assign(static_cast<std::size_t>(kBatch * heads * n_q), -7);
  RunArgs args{.q = dense_view(q.data(), way.dtype, {kBatch, n_q, heads, dim}),
               .k = dense_view(k.data(), way.dtype, {kBatch, kKeys, kv_heads, dim}),
               .v = dense_view(v.data(), way.dtype, {kBatch, kKeys, kv_heads, dim}),
               .out = dense_output(out.data(), way.dtype, {kBatch, n_q, heads, dim}),
               .lse = dense_output(results.lse.data(), DType::f32, {kBatch, heads, n_q})};
  if (!lse) args.lse = {};
  if (page > 0) {
    for (TensorView* view : {&args.k, &args.v}) *view = pages.view(view->data, *view);
    args.pages = pages.pages();
    args.kv_lengths = kLengths;
  }
  const auto status = kernel.run(args);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  results.out = out.numbers();
  return results;
}

/// Heads that share a tile have sinks of their own. The last ones tell heads apart: by scores, by sets, by rows, by
/// random blocks.
constexpr const char* kPatterns[] = {
    "pattern p { keep causal; }",
    "pattern p { branch window(100, 0) | global(3); keep causal; score softcap(s, 5); }",
    "pattern p { branch segment(64); branch segment(128); combine mean; }",
    "pattern p { keep where((q - k) % 3 != 1); }",
    "pattern p { keep window(100, 0); sink_logit 3 - 2 * h; }",
    "pattern p { keep window(100, 0); weights sigmoid(s - 3); }",
    "pattern p { keep causal; score s - 0.1 * (h + 1) * (q - k); }",
    "pattern p { branch window(50, 0); branch segment(128) on heads 0..1; keep causal; }",
    "pattern p { branches dilated(segments: [64, 128], rates: [1, 2]); }",
    "pattern p { branch blocks(16, window(1, 1) | random(2, seed: 3)); }",
};

class FewRows : public ::testing::TestWithParam<Way> {
 protected:
  double most(double of_f32, double of_f16) const { return GetParam().dtype == DType::f32 ? of_f32 : of_f16; }
};

TEST_P(FewRows, AreWhatTheInterpreterSays) {
  const Way& way = GetParam();
  using Sizes = std::vector<std::pair<std::int64_t, std::int64_t>>;  // heads to one of K, rows
  Sizes sizes = {{3, 1}, {8, 9}, {3, 21}};
  if (!std::string(way.target).starts_with("emulate")) {  // which is slower
    for (std::int64_t group : {1, 3, 8}) {
      for (std::int64_t n_q : {1, 2, 8, 9, 21}) sizes.emplace_back(group, n_q);
    }
  }
  std::size_t number = 0;
  for (const std::string text : kPatterns) {
    if (!takes_turn_on(way.target, number++)) continue;
    const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
    const bool lse = !has("combine mean") && !has("weights sigmoid");  // these have none
    const auto kernel = compiled(way, text), interpreter = compiled({"interpreter", way.dim, way.dtype}, text);
    for (const auto& [group, n_q] : sizes) {
      const auto what = fmt::format("{} rows, {} heads to one of K: {}", n_q, group, text);
      const auto got = run(kernel, way, n_q, group, false, lse), want = run(interpreter, way, n_q, group, false, lse);
      EXPECT_LT(largest_difference(got.out, want.out), most(2e-6, 1e-3)) << what;
      EXPECT_LT(largest_difference(got.lse, want.lse), most(2e-5, 1e-4)) << what;
    }
  }
}

TEST_P(FewRows, HaveTheSameBitsWithTheirOwnCopiesOfKeys) {
  const Way& way = GetParam();
  const auto kernel = compiled(way, kPatterns[0]);
  // Both are decoding's, or neither: rows of 4 heads fill a tile of 16, or rows of one do not.
  for (std::int64_t n_q : {1, 3, 17}) {
    const auto shared = run(kernel, way, n_q, 4, false), alone = run(kernel, way, n_q, 4, true);
    EXPECT_EQ(shared.out, alone.out) << n_q;
    EXPECT_EQ(shared.lse, alone.lse) << n_q;
  }
}

/// Rows that fill one tile, whose keys warps share: cut and whole, with a softmax or two, of heads that share keys or
/// not, of which some rows have no keys.
TEST(Decoding, IsWhatTheInterpreterSays) {
  using Sizes = std::vector<std::pair<std::int64_t, std::int64_t>>;  // heads to one of K, rows
  std::size_t number = 0;
  for (const std::int64_t dim : {16, 128, 256}) {
    for (const std::string text :
         {"pattern p { keep causal; score softcap(s, 5); schedule { chunk: 64; } }",
          "pattern p { branch window(300, -2); branch segment(77); combine sum; }",
          "pattern p { branch where((q * 3 + k * k) % 5 < 2); branch window(9, -330); }",
          // Of classes of rows, by all heads alike, by each its own; of lists.
          "pattern p { branches dilated(segments: [64, 256], rates: [2, 4]); keep causal; }",
          "pattern p { branch dilated(segment: 64, rate: 3, phase: h % rate); "
          "branch dilated(segment: 512, rate: 8, phase: h % rate); }",
          "pattern p { branch blocks(16, window(1, 1) | random(4, seed: 3)) | window(7, 90); }",
          "pattern p { branch blocks(32, top(3, by: pooled, causal: true)); keep causal; }"}) {
      const Way way{"emulate:sm_80", dim, DType::f16};
      if (!takes_turn_on(way.target, number++)) continue;
      const auto kernel = compiled(way, text), interpreter = compiled({"interpreter", dim, DType::f16}, text);
      for (const auto& [group, n_q] : Sizes{{1, 1}, {4, 4}, {1, 13}, {8, 2}}) {
        const bool lse = text.find("combine") == std::string::npos;
        const auto got = run(kernel, way, n_q, group, false, lse), want = run(interpreter, way, n_q, group, false, lse);
        EXPECT_LT(largest_difference(got.out, want.out), 1e-3) << text << ", " << n_q << ", " << dim;
        EXPECT_LT(largest_difference(got.lse, want.lse), 1e-4) << text << ", " << n_q << ", " << dim;
      }
    }
  }
}

/// Keys in pages are known by number, too; of more rows they are listed.
TEST(Decoding, OfPagesIsAsOfRows) {
  std::size_t number = 0;
  for (const std::int64_t dim : {24, 128}) {
    for (const std::string text :
         {"pattern p { keep causal; score softcap(s, 5); schedule { chunk: 64; } }",
          "pattern p { keep window(150, 0); }",
          "pattern p { branch dilated(300, 3); branch window(100, -20) & where(k % 5 != 2); }"}) {
      const Way way{"emulate:sm_80", dim, DType::f16};
      if (!takes_turn_on(way.target, number++)) continue;
      const auto rows = compiled(way, text), pages = compiled(way, text, true);
      for (const std::int64_t page : {16, 20, 64, 400}) {
        for (const std::int64_t n_q : {1, 5, 40}) {
          const auto want = run(rows, way, n_q, 2, false), got = run(pages, way, n_q, 2, false, true, page);
          const auto what = fmt::format("{} rows, pages of {}, dim {}: {}", n_q, page, dim, text);
          EXPECT_LT(largest_difference(got.out, want.out), 1e-3) << what;
          EXPECT_LT(largest_difference(got.lse, want.lse), 1e-4) << what;
        }
      }
    }
  }
}

/// Heads whose columns fill vectors of 16 and not; plain lanes and matrix instructions.
INSTANTIATE_TEST_SUITE_P(Widths, FewRows,
                         ::testing::Values(Way{"cpu", 24}, Way{"cpu", 32}, Way{"cpu:x86-64-v3", 24},
                                           Way{"cpu:x86-64-v3", 32}, Way{"cpu:x86-64", 24}, Way{"cpu:x86-64", 32},
                                           Way{"emulate:sm_61", 24}, Way{"emulate:sm_80", 24, DType::f16}),
                         [](const auto& of) {
                           std::string name = fmt::format("{}_d{}", of.param.target, of.param.dim);
                           for (char& c : name) c = c == ':' || c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace weft::test
