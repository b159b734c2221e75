#pragma once

#include <weft/weft.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

/// A small problem in f32 with everything a launch wants.
namespace weft::test {

inline constexpr const char* kLongnet =
    "pattern longnet {\n"
    "  branches dilated(segments: [16, 32, 64], rates: [1, 2, 4]);\n"
    "  keep causal;\n"
    "}\n";
inline constexpr const char* kCausal = "pattern p { keep causal; }\n";

/// Between -1 and 1, by a formula.
inline std::vector<float> numbers(std::int64_t count, std::uint32_t seed) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (auto& value : out) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1;
  }
  return out;
}

struct Problem {
  std::int64_t batch, tokens, heads, dim;
  std::vector<float> q, k, v, out, lse;

  Problem(std::int64_t b, std::int64_t n, std::int64_t h, std::int64_t d) : batch(b), tokens(n), heads(h), dim(d) {
    const auto count = static_cast<std::size_t>(b * n * h * d);
    std::uint32_t state = 1;
    for (auto* x : {&q, &k, &v}) {
      x->resize(count);
      for (auto& value : *x) {
        state = state * 1664525U + 1013904223U;
        value = static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1;
      }
    }
    out.assign(count, std::numeric_limits<float>::quiet_NaN());
    lse.assign(static_cast<std::size_t>(b * h * n), std::numeric_limits<float>::quiet_NaN());
  }

  RunArgs args() {
    return {.q = dense_view(q.data(), DType::f32, {batch, tokens, heads, dim}),
            .k = dense_view(k.data(), DType::f32, {batch, tokens, heads, dim}),
            .v = dense_view(v.data(), DType::f32, {batch, tokens, heads, dim}),
            .out = dense_output(out.data(), DType::f32, {batch, tokens, heads, dim}),
            .lse = dense_output(lse.data(), DType::f32, {batch, heads, tokens})};
  }
};

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = a.size() == b.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i]) continue;  // both may be -inf
    const double d = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    most = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(most, d);
  }
  return most;
}

}  // namespace weft::test
