#include "compiler/planner/cost.h"

#include <algorithm>

namespace weft::planner {
namespace {

// Issue slots of a SIMT kernel, counted in the machine code of sm_61 (docs/how-the-performance-model-works.md).
constexpr double kSoftmaxSlots = 6;      // a pair: scale, maximum, two of the exponential, sum, its share of stores
constexpr double kGradientSlots = 7;     // … of a backward pass: scale, two of the exponential, two of dS, stores
constexpr double kStagedSlots = 0.6;     // an element from global into shared memory …
constexpr double kConvertedSlots = 1.2;  // … and widened on its way
constexpr double kUnpairedLoads = 0.5;   // loads of shared memory that take a slot of their own
constexpr double kLostSlots = 0.08;      // for each product: registers of one bank, and waiting

// Kernels with matrix instructions, in clocks of an SM that runs at its highest rate: fitted to an H100
// (bench/results/2026-11-27-*; docs/how-the-performance-model-works.md).
constexpr double kMostOfMma = 1280;  // FMAs a clock that mma.sync can ask for; Hopper's have more for wgmma
constexpr double kWaitedFor =
    0.0012;  // clocks for each product of a pair that nothing hides, over a warp's tiles of 16 rows
constexpr double kLanesSlots = 2.6;    // of softmax on f32 lanes, a pair
constexpr double kLanesOfQueries = 8;  // … of a backward pass that sums up dQ, or dK and dV: by the instructions of …
constexpr double kLanesOfKeys = 12;    // … sm_80 beside those of the forward (docs/how-the-gpu-gradients-work.md)
// Of a block of keys that asks who keeps what, for each tile, more than of a full one: where it is part of a run
// (codegen/cuda/device/mma_runs.cuh), and else.
constexpr double kBoundedClocks = 3'100, kPartialClocks = 6'300;
constexpr double kPartialOfGradients = 3'100;  // … of a backward pass
constexpr double kTileClocks = 7'200;          // of a tile's rows, zones and results …
constexpr double kTileOfProduct = 27.3;        // … for each of a pair's products …
constexpr double kTermClocks = 9'800;          // … and for each range of keys beyond its first
constexpr double kOfGroups = 1.25;             // where four warps multiply together

/// Issue slots of a pair, with its share of what a block of keys needs once.
double simt_slots(const ir::Plan& plan) {
  const auto& c = plan.choices;
  const auto d = static_cast<double>(plan.bind.d), d_v = static_cast<double>(plan.bind.d_v);
  const auto products = static_cast<double>(multiplications(plan));
  // Products of rows with rows of keys stage both; sums stage those of keys, as weights come from registers.
  const double of_rows = plan.bind.gradient ? d + d_v : d;
  const double staged = (of_rows * c.tile_q + products * c.tile_k) / (static_cast<double>(c.tile_q) * c.tile_k);
  const double loads = static_cast<double>(c.micro_q + c.micro_k) / (4 * c.micro_q * c.micro_k);
  const double each = plan.bind.dtype == ir::DType::f32 ? kStagedSlots : kConvertedSlots;
  return products * (1 + kLostSlots + kUnpairedLoads * loads) + staged * each +
         (plan.bind.gradient ? kGradientSlots : kSoftmaxSlots);
}

double lanes_slots(const ir::Plan& plan) {
  if (!plan.bind.gradient) return kLanesSlots;
  return plan.stationary() == ir::Stationary::key ? kLanesOfKeys : kLanesOfQueries;
}

/// Clocks of an SM for a pair: products, then softmax, as one warp does them.
double mma_clocks(const ir::Plan& plan, const Target& target) {
  const auto products = static_cast<double>(multiplications(plan));
  const double waited = kWaitedFor / std::max(plan.choices.micro_q, 1);
  return products / std::min<double>(target.mma_per_sm, kMostOfMma) + products * waited +
         lanes_slots(plan) / target.f32_lanes_per_sm;
}

/// Ranges of keys that a tile looks at.
double terms(const ir::Plan& plan) {
  std::size_t most = 1;
  for (const auto& phase : plan.phases) {
    for (const auto& pass : phase.passes) most = std::max(most, pass.ranges.size());
  }
  return static_cast<double>(most);
}

}  // namespace

std::int64_t multiplications(const ir::Plan& plan) {
  const auto &d = plan.bind.d, &d_v = plan.bind.d_v;
  if (!plan.bind.gradient) return d + d_v;
  if (plan.choices.kernel_class == ir::KernelClass::vector) return 3 * d + 2 * d_v;
  return plan.stationary() == ir::Stationary::key ? 2 * (d + d_v) : 2 * d + d_v;
}

double peak_per_sm(const ir::Plan& plan, const Target& target) {
  return plan.choices.kernel_class == ir::KernelClass::mma ? target.mma_per_sm : target.f32_lanes_per_sm;
}

double share_of_peak(const ir::Plan& plan, const Target& target) {
  const auto products = static_cast<double>(multiplications(plan));
  if (plan.choices.kernel_class == ir::KernelClass::simt) return products / simt_slots(plan);
  return products / target.mma_per_sm / mma_clocks(plan, target);
}

double clocks_of_matrices(const ir::Plan& plan, const Target& target, const Work& work) {
  const auto& c = plan.choices;
  const double of_block = c.tile_q * c.tile_k * mma_clocks(plan, target);
  const double of_tile =
      kTileClocks + kTileOfProduct * static_cast<double>(multiplications(plan)) + kTermClocks * (terms(plan) - 1);
  const bool by_bounds = plan.bind.d <= 64 && plan.bind.d_v <= 64 && plan.predicates.empty();
  const double of_partial = plan.bind.gradient ? kPartialOfGradients : by_bounds ? kBoundedClocks : kPartialClocks;
  const double clocks =
      (work.full_tiles + work.partial_tiles) * of_block + work.partial_tiles * of_partial + work.row_tiles * of_tile;
  return c.groups != 0 ? kOfGroups * clocks : clocks;
}

}  // namespace weft::planner
