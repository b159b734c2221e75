#pragma once

#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/plan.h"
#include "compiler/target/target.h"
#include "tests/codegen/arguments.h"
#include "tests/support/random_pattern.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

/// A random problem on a compiled kernel against the pattern interpreter, wherever the kernel runs.
namespace weft::testing {

inline ir::Tensor normal(std::vector<std::int64_t> shape, std::uint64_t seed, ir::DType dtype, double times = 1) {
  ir::Tensor t(std::move(shape));
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> values;
  for (auto& v : t.data) v = rounded(times * values(generator), dtype);
  return t;
}

inline std::string difference(const ir::Tensor& got, const ir::Tensor& want, double bound, const char* what) {
  if (got.data.size() != want.data.size()) return std::string(what) + " has another size";
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    const double g = got.data[i], w = want.data[i];
    const bool fits = std::isinf(w) ? g == w : std::abs(g - w) <= bound;
    if (!fits) {
      return std::string(what) + " at " + std::to_string(i) + ": " + std::to_string(g) + ", meant " +
             std::to_string(w) + ", bound " + std::to_string(bound);
    }
  }
  return "";
}

/// The problem with head dims that kernels of this version take.
inline test::RandomProblem with_dims(test::RandomProblem p, std::uint64_t seed) {
  constexpr std::int64_t kDims[] = {8, 16, 24, 32, 40, 64, 72};
  p.shape.d = kDims[seed % std::size(kDims)];
  p.shape.d_v = kDims[(seed / 7) % std::size(kDims)];
  p.pattern.dim.reset();
  p.pattern.dim_v.reset();
  p.pattern.dtype.reset();
  return p;
}

/// What is wrong with a kernel's results, by the bounds of semantics section 10; empty when nothing is, and where
/// kernels do not have the pattern's constructs yet. CPUs are held to half of them. Every fourth seed has scores up to
/// about 1e4. `options_of(options, seed)` gives what Kernel::run takes.
template <typename Kernel, typename Options>
std::string check_random(const test::RandomProblem& p, const Target& target, ir::DType dtype, std::uint64_t seed,
                         bool branch_lse, const Options& options_of) {
  const ir::Bind bind{.d = p.shape.d, .d_v = p.shape.d_v, .dtype = dtype, .branch_lse = branch_lse};
  const auto kernel = [&] {
    if constexpr (requires { Kernel::make(p.pattern, bind, target, p.shape); })
      return Kernel::make(p.pattern, bind, target, p.shape);
    else
      return Kernel::make(p.pattern, bind, target);
  }();
  if (!kernel.ok()) {
    const auto& e = kernel.error();
    return !e.diagnostics.empty() && e.diagnostics[0].code == "E0405" ? "" : e.message;
  }
  const auto& s = p.shape;
  const auto q = normal({s.batch, s.n_q, s.heads, s.d}, seed, dtype, seed % 4 == 3 ? 2500 : 1);
  const auto k = normal({s.batch, s.n_k, s.kv_heads, s.d}, seed + 1, dtype);
  const auto v = normal({s.batch, s.n_k, s.kv_heads, s.d_v}, seed + 2, dtype);
  const auto want = ir::interpret(p.pattern, s, q, k, v, p.inputs);
  if (!want.ok()) return want.error().message;
  const RunOptions options{.layout = {.head_major = seed % 2 == 0, .row_gap = static_cast<std::int64_t>(seed % 3)},
                           .tiles_per_call = static_cast<std::int64_t>(seed % 4)};
  const auto got = kernel->run(s, q, k, v, p.inputs, options_of(options, seed));
  if (!got.ok()) return got.error().message;
  double v_max = 0;
  for (double x : v.data) v_max = std::max(v_max, std::abs(x));
  auto bounds = ir::error_bounds(p.pattern, dtype, s.n_k, v_max, want->max_abs_score, want->largest_sum);
  if (target.kind == TargetKind::cpu) bounds = {bounds.o / 2, bounds.lse / 2};
  if (auto d = difference(got->o, want->o, bounds.o, "O"); !d.empty()) return d;
  if (!got->lse.data.empty()) {
    if (auto d = difference(got->lse, want->lse, bounds.lse, "LSE"); !d.empty()) return d;
  }
  if (!got->branch_lse.data.empty()) return difference(got->branch_lse, want->branch_lse, bounds.lse, "branch LSE");
  return "";
}

}  // namespace weft::testing
