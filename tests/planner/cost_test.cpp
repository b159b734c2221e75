#include "compiler/planner/cost.h"

#include <gtest/gtest.h>

namespace weft::planner {
namespace {

ir::Plan plan_of(ir::KernelClass kernel_class, int dim, ir::DType dtype = ir::DType::f16) {
  ir::Plan plan;
  plan.bind.d = plan.bind.d_v = dim;
  plan.bind.dtype = dtype;
  plan.choices = {.kernel_class = kernel_class, .tile_q = 128, .tile_k = 64, .micro_k = 8, .micro_q = 8};
  if (kernel_class == ir::KernelClass::mma) plan.choices.micro_q = 2;  // tiles of 16 rows a warp
  return plan;
}

Target target(const char* name) { return *find_target(name); }

TEST(Cost, SharesArePartsOfThePeak) {
  for (const Target& row : known_targets()) {
    if (row.kind != TargetKind::cuda) continue;
    for (const int dim : {16, 64, 80, 128, 256}) {
      const auto simt = plan_of(ir::KernelClass::simt, dim), mma = plan_of(ir::KernelClass::mma, dim);
      EXPECT_GT(share_of_peak(simt, row), 0.3) << row.name << dim;
      EXPECT_LT(share_of_peak(simt, row), 0.95) << row.name << dim;
      EXPECT_EQ(peak_per_sm(simt, row), row.f32_lanes_per_sm);
      if (!row.has_mma) continue;
      EXPECT_GT(share_of_peak(mma, row), 0.1) << row.name << dim;
      EXPECT_LT(share_of_peak(mma, row), 1) << row.name << dim;
      EXPECT_GT(peak_per_sm(mma, row) * share_of_peak(mma, row), peak_per_sm(simt, row) * share_of_peak(simt, row))
          << "tensor cores pay on " << row.name;
    }
  }
}

TEST(Cost, WhatIsSpreadOverMoreProductsCostsLess) {
  for (const auto kernel_class : {ir::KernelClass::simt, ir::KernelClass::mma}) {
    EXPECT_GT(share_of_peak(plan_of(kernel_class, 128), target("sm_80")),
              share_of_peak(plan_of(kernel_class, 64), target("sm_80")));
  }
  auto small = plan_of(ir::KernelClass::simt, 64);
  small.choices.micro_k = 4;
  EXPECT_LT(share_of_peak(small, target("sm_61")), share_of_peak(plan_of(ir::KernelClass::simt, 64), target("sm_61")));
  EXPECT_GT(share_of_peak(plan_of(ir::KernelClass::simt, 64, ir::DType::f32), target("sm_61")),
            share_of_peak(plan_of(ir::KernelClass::simt, 64), target("sm_61")))
      << "nothing is converted";
}

ir::Plan backward(ir::Plan plan, ir::Stationary side) {
  plan.bind.gradient = true;
  plan.choices.micro_k = 4;
  plan.choices.tile_k = 32;
  plan.phases.resize(1);
  plan.phases[0].stationary = side;
  return plan;
}

TEST(Cost, KnowsTheProductsOfEachPass) {
  auto plan = plan_of(ir::KernelClass::simt, 64);
  plan.bind.d_v = 8;
  EXPECT_EQ(multiplications(plan), 64 + 8);
  EXPECT_EQ(multiplications(backward(plan, ir::Stationary::query)), 2 * 64 + 8);
  EXPECT_EQ(multiplications(backward(plan, ir::Stationary::key)), 2 * 64 + 2 * 8);
  plan.choices.kernel_class = ir::KernelClass::vector;
  EXPECT_EQ(multiplications(backward(plan, ir::Stationary::query)), 3 * 64 + 2 * 8) << "one pass on CPUs";
}

TEST(Cost, OfGradientsIsSpreadOverMoreProducts) {
  for (const auto kernel_class : {ir::KernelClass::simt, ir::KernelClass::mma}) {
    const auto of_queries = backward(plan_of(kernel_class, 64), ir::Stationary::query);
    const auto of_keys = backward(plan_of(kernel_class, 64), ir::Stationary::key);
    const auto row = target("sm_80");
    EXPECT_GT(share_of_peak(of_queries, row), 0.25);
    EXPECT_LT(share_of_peak(of_queries, row), 0.9);
    const Work work{.full_tiles = 1000};
    if (kernel_class == ir::KernelClass::simt) continue;
    EXPECT_GT(clocks_of_matrices(of_keys, row, work), 1.2 * clocks_of_matrices(of_queries, row, work));
  }
}

/// Patterns of one range of keys, as bench/results/2026-11-26-NVIDIA-H100-80GB-HBM3-changes.txt has them.
TEST(Cost, IsNearTheTimesOfAnH100) {
  struct Measured {
    int dim;
    Work work;
    double ms;
  };
  const Measured rows[] = {
      {64, {.full_tiles = 262'144, .row_tiles = 8192}, 1.953},                             // dense, 2 K tokens
      {64, {.full_tiles = 2'097'152, .row_tiles = 8192}, 13.279},                          // 16 K
      {64, {.full_tiles = 122'880, .partial_tiles = 16'384, .row_tiles = 8192}, 1.382},    // causal, 2 K
      {64, {.full_tiles = 1'040'384, .partial_tiles = 16'384, .row_tiles = 8192}, 7.026},  // causal, 16 K
      {128, {.full_tiles = 1'048'576, .row_tiles = 4096}, 12.498},                         // dense, 16 K
      {128, {.full_tiles = 520'192, .partial_tiles = 8192, .row_tiles = 4096}, 6.604},     // causal, 16 K
      {128, {.full_tiles = 29'824, .partial_tiles = 7'936, .row_tiles = 2048}, 0.712}};    // a window of 1,024
  const Target h100 = target("sm_90");
  for (const auto& row : rows) {
    const double clocks = clocks_of_matrices(plan_of(ir::KernelClass::mma, row.dim, ir::DType::bf16), h100, row.work);
    EXPECT_NEAR(1e3 * clocks / (h100.card.sms * h100.card.hertz) / row.ms, 1, 0.1)
        << row.dim << ", " << row.ms << " ms";
  }
}

/// Both passes of dense patterns, as bench/results/2026-11-27-NVIDIA-H100-80GB-HBM3-bf16-both-passes.txt has them.
TEST(Cost, OfGradientsIsNearTheTimesOfAnH100) {
  struct Pass {
    ir::Stationary side;
    int rows, keys;
    double tiles;  ///< of all heads and entries
  };
  struct Measured {
    int dim;
    std::int64_t tokens;
    double ms;
    Pass passes[2];
  };
  using enum ir::Stationary;
  const Measured all[] = {{64, 2048, 7.72, {{query, 128, 48, 8192}, {key, 128, 32, 8192}}},
                          {64, 16384, 51.9, {{query, 128, 48, 8192}, {key, 128, 32, 8192}}},
                          {128, 2048, 7.46, {{query, 128, 32, 4096}, {key, 64, 48, 8192}}},
                          {128, 16384, 52.1, {{query, 128, 32, 4096}, {key, 64, 48, 8192}}}};
  const Target h100 = target("sm_90");
  for (const auto& row : all) {
    double clocks = 0;
    for (const auto& pass : row.passes) {
      auto plan = backward(plan_of(ir::KernelClass::mma, row.dim, ir::DType::bf16), pass.side);
      plan.choices.tile_q = pass.rows;
      plan.choices.micro_q = pass.rows / 64;
      plan.choices.tile_k = pass.keys;
      const auto blocks = static_cast<double>((row.tokens + pass.keys - 1) / pass.keys);
      clocks += clocks_of_matrices(plan, h100, {.full_tiles = pass.tiles * blocks, .row_tiles = pass.tiles});
    }
    EXPECT_NEAR(1e3 * clocks / (h100.card.sms * h100.card.hertz) / row.ms, 1, 0.12) << row.dim << ", " << row.tokens;
  }
}

TEST(Cost, IsNearWhatWasFoundInMachineCode) {
  // The prototype on sm_61 at 128 rows by 64 keys: 0.863 at dim 64, 0.853 at 128.
  EXPECT_NEAR(share_of_peak(plan_of(ir::KernelClass::simt, 64), target("sm_61")), 0.85, 0.02);
  EXPECT_NEAR(share_of_peak(plan_of(ir::KernelClass::simt, 128), target("sm_61")), 0.87, 0.02);
}

}  // namespace
}  // namespace weft::planner
