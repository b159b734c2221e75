#include "tests/engine/problem.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

/// Few rows on the CPU, as in decoding: heads that share K and V stand in one tile, of which only the vectors that have
/// rows are computed.
namespace weft::test {
namespace {

constexpr std::int64_t kBatch = 2, kKvHeads = 2, kKeys = 333;

struct Results {
  std::vector<float> out, lse;
};

Kernel compiled(const std::string& target, const std::string& text, std::int64_t dim) {
  static const Engine engine({.no_cache = true});
  auto kernel = engine.compile(text, {.dim = dim, .dtype = DType::f32, .target = target});
  EXPECT_TRUE(kernel.ok()) << (kernel.ok() ? "" : kernel.error().message);
  return kernel.value();
}

/// `group` query heads share each head of K and V, or have copies of their own.
Results run(const Kernel& kernel, std::int64_t dim, std::int64_t n_q, std::int64_t group, bool copies,
            bool lse = true) {
  const auto heads = kKvHeads * group, kv_heads = copies ? heads : kKvHeads;
  const auto q = numbers(kBatch * n_q * heads * dim, 1);
  // [batch, key, kv head, dim]
  const auto spread = [&](std::uint32_t seed) {
    const auto shared = numbers(kBatch * kKeys * kKvHeads * dim, seed);
    if (!copies) return shared;
    std::vector<float> out;
    for (std::int64_t row = 0; row < kBatch * kKeys * kKvHeads; ++row) {
      for (std::int64_t i = 0; i < group; ++i)
        out.insert(out.end(), shared.begin() + row * dim, shared.begin() + (row + 1) * dim);
    }
    return out;
  };
  const auto k = spread(2), v = spread(3);
  Results results;
  results.out.assign(q.size(), -7);
  results.lse.assign(static_cast<std::size_t>(kBatch * heads * n_q), -7);
  RunArgs args{.q = dense_view(q.data(), DType::f32, {kBatch, n_q, heads, dim}),
               .k = dense_view(k.data(), DType::f32, {kBatch, kKeys, kv_heads, dim}),
               .v = dense_view(v.data(), DType::f32, {kBatch, kKeys, kv_heads, dim}),
               .out = dense_output(results.out.data(), DType::f32, {kBatch, n_q, heads, dim}),
               .lse = dense_output(results.lse.data(), DType::f32, {kBatch, heads, n_q})};
  if (!lse) args.lse = {};
  const auto status = kernel.run(args);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  return results;
}

/// The last ones tell heads apart: by scores, by sets, by rows, by random blocks.
constexpr const char* kPatterns[] = {
    "pattern p { keep causal; }",
    "pattern p { branch window(100, 0) | global(3); keep causal; score softcap(s, 5); }",
    "pattern p { branch segment(64); branch segment(128); combine mean; }",
    "pattern p { keep where((q - k) % 3 != 1); }",
    "pattern p { keep causal; score s - 0.1 * (h + 1) * (q - k); }",
    "pattern p { branch window(50, 0); branch segment(128) on heads 0..1; keep causal; }",
    "pattern p { branches dilated(segments: [64, 128], rates: [1, 2]); }",
    "pattern p { branch blocks(16, window(1, 1) | random(2, seed: 3)); }",
};

/// Of heads whose columns fill vectors of 16 and not.
class FewRows : public ::testing::TestWithParam<std::tuple<const char*, std::int64_t>> {
 protected:
  std::string target_ = std::get<0>(GetParam());
  std::int64_t dim_ = std::get<1>(GetParam());
};

TEST_P(FewRows, AreWhatTheInterpreterSays) {
  for (const std::string text : kPatterns) {
    const bool lse = text.find("combine mean") == std::string::npos;  // a mean of softmaxes has none
    const auto kernel = compiled(target_, text, dim_), interpreter = compiled("interpreter", text, dim_);
    for (std::int64_t group : {1, 3, 8}) {
      for (std::int64_t n_q : {1, 2, 8, 9, 21}) {
        const auto what = fmt::format("{} rows, {} heads to one of K: {}", n_q, group, text);
        const auto got = run(kernel, dim_, n_q, group, false, lse),
                   want = run(interpreter, dim_, n_q, group, false, lse);
        EXPECT_LT(largest_difference(got.out, want.out), 2e-6) << what;
        EXPECT_LT(largest_difference(got.lse, want.lse), 2e-5) << what;
      }
    }
  }
}

TEST_P(FewRows, HaveTheSameBitsWithTheirOwnCopiesOfKeys) {
  const auto kernel = compiled(target_, kPatterns[0], dim_);
  for (std::int64_t n_q : {1, 3, 5, 16}) {
    const auto shared = run(kernel, dim_, n_q, 4, false), alone = run(kernel, dim_, n_q, 4, true);
    EXPECT_EQ(shared.out, alone.out) << n_q;
    EXPECT_EQ(shared.lse, alone.lse) << n_q;
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, FewRows,
                         ::testing::Combine(::testing::Values("cpu", "cpu:x86-64-v3", "cpu:x86-64"),
                                            ::testing::Values(24, 32)),
                         [](const auto& of) {
                           std::string name = fmt::format("{}_d{}", std::get<0>(of.param), std::get<1>(of.param));
                           for (char& c : name) c = c == ':' || c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace weft::test
