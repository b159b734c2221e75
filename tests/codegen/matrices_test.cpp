#include "compiler/planner/planner.h"
#include "tests/codegen/emulated_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

/// Kernels by matrix instructions, as the emulator counts them: the main loops leave no bank and no sector idle, and
/// skip tiles that keep nothing.
namespace weft::testing {
namespace {

using ir::make_set;
using ir::SetKind;

struct Problem {
  ir::Pattern pattern;
  ir::Shape shape;
  ir::Tensor q, k, v;
};

Problem problem(ir::Pattern pattern, std::int64_t n, std::int64_t d) {
  const auto x = [&](unsigned seed) { return rounded(normal({1, n, 1, d}, seed), ir::DType::f16); };
  return {.pattern = std::move(pattern),
          .shape = {.batch = 1, .n_q = n, .n_k = n, .heads = 1, .kv_heads = 1, .d = d, .d_v = d},
          .q = x(1),
          .k = x(2),
          .v = x(3)};
}

ir::Pattern of(ir::SetPtr set) {
  ir::Pattern p;
  p.name = "matrices";
  p.branches.push_back({.set = std::move(set), .heads = {}, .range = {}});
  return p;
}

emulate::Report counted(Problem p, const char* target_name) {
  const Target target = find_target(target_name).value();
  if (target.has_wgmma) p.pattern.schedule.push_back({.key = "groups", .value = 1, .range = {}});
  const auto plan = planner::plan(p.pattern, {.d = p.shape.d, .d_v = p.shape.d_v, .dtype = ir::DType::f16}, target);
  EXPECT_TRUE(plan.ok());
  EXPECT_EQ(plan->choices.groups != 0, target.has_wgmma);
  EXPECT_EQ(plan->choices.kernel_class, ir::KernelClass::mma);
  const auto kernel = EmulatedKernel::make(*plan, target, {.count = true});
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  emulate::Report report;
  EmulatedOptions options;
  options.layout.head_major = true;
  const auto got = kernel->run(p.shape, p.q, p.k, p.v, {}, options, &report);
  EXPECT_TRUE(got.ok()) << got.error().message;
  return report;
}

class MatrixTraffic : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, MatrixTraffic, ::testing::Values("sm_75", "sm_80", "sm_90a"),
                         [](const auto& of) { return std::string(of.param); });

/// Rows an odd number of 16-byte chunks apart, or pieces of eight rows: a matrix's eight rows meet all banks, and so do
/// the copies' stores.
TEST_P(MatrixTraffic, HasNoConflictsAndFullSectors) {
  for (std::int64_t d : {64, 128}) {
    const Problem p = problem(of(make_set(SetKind::all)), 256, d);
    const emulate::Report report = counted(p, GetParam());
    // Lists of keys and zones are not laid out for banks.
    EXPECT_LE(report.shared().conflicts * 500, report.shared().units)
        << "d " << d << ", line " << (report.shared_lines.empty() ? 0 : report.shared_lines[0].line);
    // To pieces of eight rows a quarter of a warp copies 16 bytes of each, so that sectors are asked for by halves.
    const bool by_halves = find_target(GetParam())->has_wgmma;
    EXPECT_LE(report.global().units * 32, report.global().bytes * (by_halves ? 21 : 11) / 10) << "d " << d;
  }
}

/// Of four warps that multiply together a row's sums are those of one warp: the same bits, whatever the pattern, NaN
/// and infinities in V, rows that are not aligned, and dims that fill no fragment.
TEST(MatrixGroups, HaveTheBitsOfWarps) {
  const Target target = find_target("sm_90a").value();
  for (const auto& [d, dtype] : {std::pair<std::int64_t, ir::DType>{64, ir::DType::f16},
                                 {72, ir::DType::bf16},
                                 {128, ir::DType::f16},
                                 {200, ir::DType::bf16}}) {
    for (int kind = 0; kind < 3; ++kind) {
      Problem p = problem(of(kind == 0 ? make_set(SetKind::causal) : make_set(SetKind::window, {150, 20})), 300, d);
      if (kind == 2) p.pattern.branches.push_back(of(make_set(SetKind::causal)).branches[0]);
      p.v.data[static_cast<std::size_t>(140 * d + 3)] = std::numeric_limits<double>::quiet_NaN();
      p.v.data[static_cast<std::size_t>(30 * d)] = std::numeric_limits<double>::infinity();
      std::vector<double> first;
      for (int groups : {0, 1}) {
        p.pattern.schedule = {{.key = "groups", .value = groups, .range = {}}};
        const auto plan = planner::plan(p.pattern, {.d = d, .d_v = d, .dtype = dtype}, target);
        ASSERT_TRUE(plan.ok());
        ASSERT_EQ(plan->choices.groups, groups);
        const auto kernel = EmulatedKernel::make(*plan, target);
        ASSERT_TRUE(kernel.ok()) << kernel.error().message;
        EmulatedOptions options;
        options.layout.row_gap = kind;
        const auto got = kernel->run(p.shape, p.q, p.k, p.v, {}, options);
        ASSERT_TRUE(got.ok()) << got.error().message;
        if (groups == 0) first = got->o.data;
        ASSERT_EQ(first.size(), got->o.data.size());
        for (std::size_t i = 0; i < first.size(); ++i) {
          const double x = first[i], y = got->o.data[i];
          ASSERT_TRUE(x == y || (std::isnan(x) && std::isnan(y)))
              << "d " << d << ", " << kind << ", at " << i << ": " << x << ", " << y;
        }
      }
    }
  }
}

/// Tiles of 16 rows that keep no key of a block are not multiplied: of 16 x 64 there are, for each 128 rows, those
/// before the diagonal and 12 of 16 on it.
TEST(MatrixWork, SkipsEmptyTilesOfRows) {
  const auto flops = [](SetKind kind) {
    const Problem p = problem(of(make_set(kind)), 512, 64);
    return counted(p, "sm_80").flops;
  };
  const std::int64_t of_tile = std::int64_t{2} * 2 * 16 * 64 * 64;
  std::int64_t before = 0;
  for (std::int64_t tile = 0; tile < 4; ++tile) before += 8 * 2 * tile;
  // Beside those of the products, each weight and each move of a measure counts a few.
  EXPECT_NEAR(static_cast<double>(flops(SetKind::all)), static_cast<double>(4 * 8 * 8 * of_tile),
              0.02 * 4 * 8 * 8 * static_cast<double>(of_tile));
  EXPECT_NEAR(static_cast<double>(flops(SetKind::causal)), static_cast<double>((before + 4 * 12) * of_tile),
              0.02 * static_cast<double>((before + 4 * 12) * of_tile));
}

}  // namespace
}  // namespace weft::testing
