#include "compiler/planner/planner.h"
#include "tests/codegen/emulated_runner.h"

#include <gtest/gtest.h>

/// Kernels on plain lanes, as the emulator counts them: the main loops leave no bank idle, read no sector for nothing,
/// and skip rows that keep nothing.
namespace weft::testing {
namespace {

using ir::make_set;
using ir::SetKind;

emulate::Report counted(SetKind kind, ir::DType dtype, std::int64_t n, std::int64_t d) {
  ir::Pattern pattern;
  pattern.name = "lanes";
  pattern.branches.push_back({.set = make_set(kind), .heads = {}, .range = {}});
  const ir::Shape shape{.batch = 1, .n_q = n, .n_k = n, .heads = 1, .kv_heads = 1, .d = d, .d_v = d};
  const Target target = find_target("sm_61").value();
  const auto plan = planner::plan(pattern, {.d = d, .d_v = d, .dtype = dtype}, target);
  EXPECT_TRUE(plan.ok());
  const auto kernel = EmulatedKernel::make(*plan, target, {.count = true});
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  emulate::Report report;
  EmulatedOptions options;
  options.layout.head_major = true;
  const auto x = [&](int seed) { return rounded(normal({1, n, 1, d}, static_cast<unsigned>(seed)), dtype); };
  EXPECT_TRUE(kernel->run(shape, x(1), x(2), x(3), {}, options, &report).ok());
  return report;
}

TEST(LaneTraffic, HasNoConflicts) {
  for (std::int64_t d : {32, 64, 80, 128, 256}) {
    const auto report = counted(SetKind::all, ir::DType::f16, 256, d);
    // Rows of results meet in pairs, once a tile; lists of keys and zones are not laid out for banks.
    EXPECT_LE(report.shared().conflicts * 1000, report.shared().units * 15)
        << "d " << d << ", line " << (report.shared_lines.empty() ? 0 : report.shared_lines[0].line);
  }
}

/// A load brings 16 bytes of each row, half of a sector: the next one, or the next chunk, finds the rest in the cache.
TEST(LaneTraffic, AsksForEachHalfOfASectorOnce) {
  for (std::int64_t d : {64, 128}) {
    for (auto dtype : {ir::DType::f32, ir::DType::f16}) {
      const auto global = counted(SetKind::all, dtype, 256, d).global();
      EXPECT_LE(global.units * 32, global.bytes * 21 / 10) << "d " << d << " " << ir::to_string(dtype);
    }
  }
}

/// Of 32 rows x 64 keys there are, for each 128 rows, those before the diagonal and 6 of 8 on it.
TEST(LaneWork, SkipsWarpsWhoseRowsKeepNothing) {
  const auto flops = [](SetKind kind) { return static_cast<double>(counted(kind, ir::DType::f16, 512, 64).flops); };
  const double of_tile = 2.0 * 2 * 32 * 64 * 64;
  double before = 0;
  for (int tile = 0; tile < 4; ++tile) before += 4 * 2 * tile;
  // Beside those of the products, each weight and each move of a maximum counts a few.
  EXPECT_NEAR(flops(SetKind::all), 4 * 4 * 8 * of_tile, 0.03 * 4 * 4 * 8 * of_tile);
  EXPECT_NEAR(flops(SetKind::causal), (before + 4 * 6) * of_tile, 0.03 * (before + 4 * 6) * of_tile);
}

}  // namespace
}  // namespace weft::testing
