#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/plan.h"
#include "tests/codegen/cpu_runner.h"
#include "tests/codegen/emulated_runner.h"
#include "tests/support/random_pattern.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

/// Compiled kernels against the pattern interpreter on seeded random patterns, shapes, layouts and types, with the
/// bounds of semantics section 10: for every width of vector that this machine executes, and for CUDA on the emulator.
namespace weft::testing {
namespace {

using test::RandomProblem;

struct Case {
  std::string target;
  ir::DType dtype;
  bool emulated() const { return target.starts_with("sm_"); }
};

/// How the emulator runs what `seed` says.
EmulatedOptions emulated(const RunOptions& options, std::uint64_t seed) {
  constexpr emulate::Order kOrders[] = {emulate::Order::ascending, emulate::Order::descending, emulate::Order::random};
  EmulatedOptions out{options};
  out.order = kOrders[seed % 3];
  out.seed = seed;
  return out;
}
RunOptions compiled(const RunOptions& options, std::uint64_t) { return options; }

ir::Tensor normal(std::vector<std::int64_t> shape, std::uint64_t seed, ir::DType dtype) {
  ir::Tensor t(std::move(shape));
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> values;
  for (auto& v : t.data) v = rounded(values(generator), dtype);
  return t;
}

std::string difference(const ir::Tensor& got, const ir::Tensor& want, double bound, const char* what) {
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
RandomProblem with_dims(RandomProblem p, std::uint64_t seed) {
  constexpr std::int64_t kDims[] = {8, 16, 24, 32, 40, 64, 72};
  p.shape.d = kDims[seed % std::size(kDims)];
  p.shape.d_v = kDims[(seed / 7) % std::size(kDims)];
  p.pattern.dim.reset();
  p.pattern.dim_v.reset();
  p.pattern.dtype.reset();
  return p;
}

template <typename Kernel, typename Options>
std::string check(const RandomProblem& p, const Case& c, std::uint64_t seed, bool branch_lse,
                  const Options& options_of) {
  const ir::Bind bind{.d = p.shape.d, .d_v = p.shape.d_v, .dtype = c.dtype, .branch_lse = branch_lse};
  const Target target = find_target(c.target).value();
  const auto kernel = Kernel::make(p.pattern, bind, target);
  if (!kernel.ok()) {
    const auto& e = kernel.error();
    return !e.diagnostics.empty() && e.diagnostics[0].code == "E0405" ? "" : e.message;
  }
  const auto& s = p.shape;
  const auto q = normal({s.batch, s.n_q, s.heads, s.d}, seed, c.dtype);
  const auto k = normal({s.batch, s.n_k, s.kv_heads, s.d}, seed + 1, c.dtype);
  const auto v = normal({s.batch, s.n_k, s.kv_heads, s.d_v}, seed + 2, c.dtype);
  const auto want = ir::interpret(p.pattern, s, q, k, v, p.inputs);
  if (!want.ok()) return want.error().message;
  const RunOptions options{.layout = {.head_major = seed % 2 == 0, .row_gap = static_cast<std::int64_t>(seed % 3)},
                           .tiles_per_call = static_cast<std::int64_t>(seed % 4)};
  const auto got = kernel->run(s, q, k, v, p.inputs, options_of(options, seed));
  if (!got.ok()) return got.error().message;
  double v_max = 0;
  for (double x : v.data) v_max = std::max(v_max, std::abs(x));
  const auto bounds = ir::error_bounds(p.pattern, c.dtype, s.n_k, v_max, want->max_abs_score);
  if (auto d = difference(got->o, want->o, bounds.o, "O"); !d.empty()) return d;
  if (!got->lse.data.empty()) {
    if (auto d = difference(got->lse, want->lse, bounds.lse, "LSE"); !d.empty()) return d;
  }
  if (!got->branch_lse.data.empty()) return difference(got->branch_lse, want->branch_lse, bounds.lse, "branch LSE");
  return "";
}

std::string check(const RandomProblem& p, const Case& c, std::uint64_t seed, bool branch_lse) {
  return c.emulated() ? check<EmulatedKernel>(p, c, seed, branch_lse, emulated)
                      : check<CpuKernel>(p, c, seed, branch_lse, compiled);
}

class RandomKernels : public ::testing::TestWithParam<Case> {};

TEST_P(RandomKernels, MatchTheInterpreter) {
  const Target target = find_target(GetParam().target).value();
  if (!GetParam().emulated() && !host_can_execute(target))
    GTEST_SKIP() << "this machine does not execute " << target.name;
  const char* times = std::getenv("WEFT_RANDOM_TIMES");
  const int count = (GetParam().emulated() ? 20 : 60) * (times != nullptr ? std::atoi(times) : 1);
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<std::uint64_t>(i) + 7000;
    // Every third problem is long enough for several tiles and blocks.
    const test::RandomOptions options{.most_tokens = i % 3 == 0 ? 300 : 60, .nesting = i % 3 == 0 ? 1 : 3};
    const RandomProblem problem = with_dims(test::random_problem(seed, options), seed);
    const bool branch_lse = i % 5 == 0;
    const auto fails = [&](const RandomProblem& p) { return !check(p, GetParam(), seed, branch_lse).empty(); };
    if (!fails(problem)) continue;
    const RandomProblem small = test::shrink(
        problem,
        [&](const RandomProblem& p) {
          return p.shape.d % 8 == 0 && p.shape.d_v % 8 == 0 && p.shape.d >= 8 && p.shape.d_v >= 8 && fails(p);
        },
        300);
    FAIL() << "seed " << seed << ": " << check(small, GetParam(), seed, branch_lse) << "\n" << test::describe(small);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RandomKernels,
                         ::testing::Values(Case{"cpu:x86-64-v4", ir::DType::f32}, Case{"cpu:x86-64-v4", ir::DType::f16},
                                           Case{"cpu:x86-64-v4", ir::DType::bf16},
                                           Case{"cpu:x86-64-v3", ir::DType::f32}, Case{"cpu:x86-64-v3", ir::DType::f16},
                                           Case{"cpu:x86-64", ir::DType::f32}, Case{"cpu:x86-64", ir::DType::f16},
                                           Case{"cpu:x86-64", ir::DType::bf16}, Case{"sm_61", ir::DType::f32},
                                           Case{"sm_61", ir::DType::f16}, Case{"sm_61", ir::DType::bf16}),
                         [](const auto& of) {
                           std::string name = of.param.target.substr(of.param.emulated() ? 0 : 4) + "_" +
                                              ir::to_string(of.param.dtype);
                           for (auto& ch : name) ch = std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
                           return name;
                         });

}  // namespace
}  // namespace weft::testing
