// Runs a kernel that `weft_add_bundle` linked into this program, and checks it against plain loops.

#include "embedding_kernels.h"

#include <weft/weft.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kTokens = 300, kHeads = 2, kDim = 32;

// The pattern's text is what kernels are found by, so the program says which attention it means.
constexpr const char* kText = "pattern streaming { keep causal & (window(63, 0) | sink(4)); }";

std::vector<float> some_numbers(unsigned seed) {
  std::vector<float> out(kTokens * kHeads * kDim);
  for (auto& value : out) {
    seed = seed * 1664525U + 1013904223U;
    value = static_cast<float>(seed >> 8) / static_cast<float>(1 << 23) - 1;
  }
  return out;
}

std::size_t row(std::int64_t token, std::int64_t head) {
  return static_cast<std::size_t>((token * kHeads + head) * kDim);
}

/// One row of O, the slow way.
std::vector<double> plain_row(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
                              std::int64_t token, std::int64_t head) {
  std::vector<double> out(kDim);
  double sum = 0;
  for (std::int64_t key = 0; key <= token; ++key) {
    if (key >= 4 && key + 63 < token) continue;
    double score = 0;
    for (std::size_t c = 0; c < kDim; ++c)
      score += static_cast<double>(q[row(token, head) + c]) * k[row(key, head) + c];
    const double weight = std::exp(score / std::sqrt(static_cast<double>(kDim)));
    sum += weight;
    for (std::size_t c = 0; c < kDim; ++c) out[c] += weight * v[row(key, head) + c];
  }
  for (auto& value : out) value /= sum;
  return out;
}

int fail(const weft::Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  for (const auto& note : error.notes) std::fprintf(stderr, "  %s\n", note.c_str());
  return 1;
}

}  // namespace

int main() {
  weft::EngineOptions options;
  options.linked_bundles = {{weft_embedding_kernels, weft_embedding_kernels_size, "embedding_kernels"}};
  options.no_cache = true;
  options.no_compile = true;  // what is not in the bundle is an error that says how to add it
  const weft::Engine engine(options);
  const auto kernel = engine.compile(kText, {.dim = kDim, .dtype = weft::DType::f32});
  if (!kernel) return fail(kernel.error());

  const auto q = some_numbers(1), k = some_numbers(2), v = some_numbers(3);
  std::vector<float> out(q.size());
  const auto view = [](const std::vector<float>& x) {
    return weft::dense_view(x.data(), weft::DType::f32, {1, kTokens, kHeads, kDim});
  };
  const auto status =
      kernel->run({.q = view(q),
                   .k = view(k),
                   .v = view(v),
                   .out = weft::dense_output(out.data(), weft::DType::f32, {1, kTokens, kHeads, kDim})});
  if (!status) return fail(status.error());

  double most = 0;
  for (std::int64_t token = 0; token < kTokens; ++token) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const auto want = plain_row(q, k, v, token, head);
      for (std::size_t c = 0; c < kDim; ++c) most = std::max(most, std::abs(want[c] - out[row(token, head) + c]));
    }
  }
  std::printf("kernel from %s for %s, largest difference from plain loops %.1e\n", weft::to_string(kernel->origin()),
              kernel->target().c_str(), most);
  return most < 1e-5 ? 0 : 1;
}
