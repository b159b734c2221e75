#include "tests/codegen/cpu_runner.h"
#include "tests/codegen/emulated_runner.h"
#include "tests/codegen/random_check.h"
#include "tests/support/effort.h"
#include "tests/support/random_pattern.h"

#include <gtest/gtest.h>

/// Compiled kernels against the pattern interpreter on seeded random patterns, shapes, layouts and types, with the
/// bounds of semantics section 10: for every width of vector that this machine executes, and for CUDA on the emulator.
namespace weft::testing {
namespace {

using test::RandomProblem;

struct Case {
  std::string target;
  ir::DType dtype;
  bool groups = false;  ///< four warps multiply together
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

std::string check(const RandomProblem& p, const Case& c, std::uint64_t seed, bool branch_lse) {
  const Target target = find_target(c.target).value();
  return c.emulated() ? check_random<EmulatedKernel>(p, target, c.dtype, seed, branch_lse, emulated)
                      : check_random<CpuKernel>(p, target, c.dtype, seed, branch_lse, compiled);
}

class RandomKernels : public ::testing::TestWithParam<Case> {};

TEST_P(RandomKernels, MatchTheInterpreter) {
  const Target target = find_target(GetParam().target).value();
  if (!GetParam().emulated() && !host_can_execute(target))
    GTEST_SKIP() << "this machine does not execute " << target.name;
  const int count = (GetParam().emulated() ? test::effort(5, 10) : test::effort(40, 60)) * test::random_times();
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<std::uint64_t>(i) + 7000;
    // Every third problem is long enough for several tiles and blocks.
    const test::RandomOptions options{.most_tokens = i % 3 == 0 ? 300 : 60, .nesting = i % 3 == 0 ? 1 : 3};
    RandomProblem problem = with_dims(test::random_problem(seed, options), seed);
    if (GetParam().groups) problem.pattern.schedule.push_back({.key = "groups", .value = 1, .range = {}});
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
                                           Case{"cpu:x86-64-v4", ir::DType::bf16}, Case{"cpu:znver4", ir::DType::bf16},
                                           Case{"cpu:x86-64-v3", ir::DType::f32}, Case{"cpu:x86-64-v3", ir::DType::f16},
                                           Case{"cpu:x86-64", ir::DType::f32}, Case{"cpu:x86-64", ir::DType::f16},
                                           Case{"cpu:x86-64", ir::DType::bf16}, Case{"sm_61", ir::DType::f32},
                                           Case{"sm_61", ir::DType::f16}, Case{"sm_61", ir::DType::bf16},
                                           Case{"sm_75", ir::DType::f16}, Case{"sm_80", ir::DType::f16},
                                           Case{"sm_86", ir::DType::bf16}, Case{"sm_90a", ir::DType::bf16, true}),
                         [](const auto& of) {
                           std::string name = of.param.target.substr(of.param.emulated() ? 0 : 4) + "_" +
                                              ir::to_string(of.param.dtype);
                           for (auto& ch : name) ch = std::isalnum(static_cast<unsigned char>(ch)) ? ch : '_';
                           return name;
                         });

}  // namespace
}  // namespace weft::testing
