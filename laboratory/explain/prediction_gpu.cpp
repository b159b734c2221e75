#include "compiler/ir/few_rows.h"
#include "compiler/ir/key_chunks.h"
#include "compiler/planner/cost.h"
#include "laboratory/explain/compiled.h"
#include "laboratory/explain/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weft::explain {

namespace {

constexpr double kSchedulers = 4;  // of an SM

/// One kernel and all that it computes.
struct Pass {
  const char* of;
  const ir::Plan& plan;
  const planner::Work& work;
  const Compiled& compiled;
  double rows;       ///< that its tiles hold, over batch and heads
  double in_a_tile;  ///< heads that one block of threads takes one after another
  double bytes;      ///< of tensors
};

/// The share of the card's schedulers that have a warp with rows to compute: a tile with few rows leaves warps of its
/// block idle, few tiles leave SMs.
double share_of_schedulers(const Pass& pass, const Target& target, const ir::Shape& shape) {
  const auto& c = pass.plan.choices;
  const double tiles = pass.work.row_tiles / static_cast<double>(pass.plan.phases.size());
  if (tiles < 1) return 1;
  // Above 128 columns two warps share their rows.
  const double warps = c.threads / 32.0, together = std::max<double>(c.sub_q, c.tile_q / warps);
  const double rows = pass.rows / tiles;
  const auto shares = ir::shares_of_tile(pass.plan, ir::key_chunks(pass.plan, shape, 0).count);
  const double resident = target.card.sms * std::max(1, pass.compiled.blocks_per_sm);
  const double at_once = std::min(tiles / pass.in_a_tile * static_cast<double>(shares), resident);
  const double working = warps * std::min(1.0, std::ceil(rows / together) * together / c.tile_q);
  return std::min(1.0, at_once * working / (kSchedulers * target.card.sms));
}

struct Cost {
  double seconds = 0, executed = 0, loop_share = 0, busy = 1;
  bool seen = false, fitted = false;
};

/// The loop over keys or memory, whichever needs longer. With matrix instructions partial blocks of keys, and what a
/// tile begins and ends with, have clocks of their own.
Cost cost_of(const Pass& pass, const Target& target, const ir::Shape& shape) {
  const auto& report = pass.compiled.machine_code;
  Cost out{.executed = executed_flops(pass.plan, pass.work), .busy = share_of_schedulers(pass, target, shape)};
  out.seen = report && report->trusted && report->share_of_peak;
  out.fitted = !out.seen && pass.plan.choices.kernel_class == ir::KernelClass::mma;
  out.loop_share = out.seen ? *report->share_of_peak : planner::share_of_peak(pass.plan, target);
  const double clocks = out.fitted ? planner::clocks_of_matrices(pass.plan, target, pass.work)
                                   : out.executed / (2 * planner::peak_per_sm(pass.plan, target) * out.loop_share);
  out.seconds =
      std::max(clocks / (target.card.sms * target.card.hertz * out.busy), pass.bytes / target.card.bytes_per_s);
  return out;
}

std::string assumption(const Pass& pass, const Cost& cost, const Target& target) {
  const auto& card = target.card;
  return fmt::format(
      "{}, {} SMs of {:.0f} FMA a clock at {:.2f} GHz, {:.0f} GB/s; full blocks of keys at {:.3f} of that, {}, {}",
      card.name, card.sms, planner::peak_per_sm(pass.plan, target), card.hertz / 1e9, card.bytes_per_s / 1e9,
      cost.loop_share,
      cost.fitted ? "partial ones and what a tile begins and ends with as fitted to an H100" : "partial ones too",
      cost.busy < 1 ? fmt::format("and {:.2f} of the schedulers with rows to compute", cost.busy)
                    : std::string("and no SM idle"));
}

std::vector<Pass> passes_of(const Workload& load, const Planned& planned, const std::vector<Compiled>& kernels,
                            const ir::Shape& shape) {
  const ir::Plan& plan = ir::plan_of(planned.plan, load.regime);
  const auto rows = [&](std::int64_t n) { return static_cast<double>(shape.batch * shape.heads * n); };
  if (!plan.transposed) return {{"O", plan, load.work, kernels.at(0), rows(shape.n_q), 1, load.bytes}};
  // Of the gradients a pass writes its own and no other; of O nothing is read but for delta.
  const double group = static_cast<double>(shape.heads / shape.kv_heads);
  return {{"dQ", plan, load.work, kernels.at(0), rows(shape.n_q), 1, load.bytes / 2},
          {"dK, dV", *plan.transposed, load.transposed, kernels.at(1), rows(shape.n_k), group, load.bytes / 2}};
}

/// What is known of each query before dQ: O and dO are read once.
Prediction::Pass terms_of(const Planned& planned, const ir::Shape& shape) {
  const auto& card = planned.target.card;
  const double rows = static_cast<double>(shape.batch * shape.heads * shape.n_q);
  constexpr double kFloat = 4;  // the LSE is read, and two numbers stay
  const double bytes = rows * (2.0 * static_cast<double>(shape.d_v * ir::size_of(planned.bind.dtype)) + 3 * kFloat);
  return {.of = "delta", .ms = 1e3 * bytes / card.bytes_per_s, .from = "model"};
}

int rounded_up(int value, int step) { return (value + step - 1) / step * step; }

}  // namespace

Prediction predict_gpu(const Workload& load, const Planned& planned, const std::vector<Compiled>& kernels,
                       const ir::Shape& shape) {
  const Target& target = planned.target;
  const auto flops_per_s = [&](const ir::Plan& plan) {
    return 2 * planner::peak_per_sm(plan, target) * target.card.sms * target.card.hertz;
  };
  Prediction out;
  out.from = "sass";
  double seconds = 0, executed = 0, in_loops = 0;
  if (planned.bind.gradient) {
    out.passes.push_back(terms_of(planned, shape));
    seconds = out.passes.back().ms / 1e3;
  }
  for (const Pass& pass : passes_of(load, planned, kernels, shape)) {
    const Cost cost = cost_of(pass, target, shape);
    const char* const from = cost.seen ? "sass" : "model";
    if (!cost.seen) out.from = from;
    seconds += cost.seconds;
    executed += cost.executed;
    in_loops += cost.executed / cost.loop_share;
    const std::string assumed = assumption(pass, cost, target);
    out.assumed +=
        planned.bind.gradient ? fmt::format("{}{}: {}", out.assumed.empty() ? "" : "; ", pass.of, assumed) : assumed;
    out.loop_share = cost.loop_share;
    if (!planned.bind.gradient) continue;
    const double most = cost.seconds * flops_per_s(pass.plan);
    out.passes.push_back({.of = pass.of,
                          .ms = 1e3 * cost.seconds,
                          .executed_share = most > 0 ? cost.executed / most : 0,
                          .loop_share = cost.loop_share,
                          .from = from});
  }
  const double most = seconds * flops_per_s(planned.plan);
  out.ms = 1e3 * seconds;
  out.share_of_peak = most > 0 ? load.flops / most : 0;
  out.executed_share = most > 0 ? executed / most : 0;
  if (planned.bind.gradient) out.loop_share = in_loops > 0 ? executed / in_loops : 0;
  if (planned.plan.of_inputs) out.assumed += "; without gradients of inputs";
  return out;
}

int blocks_per_sm(const Target& target, int threads, int registers, std::int64_t shared_bytes) {
  constexpr int kWarp = 32, kRegistersAtATime = 256;
  // From the generation with asynchronous copies on, the system keeps 1 KB of each block's shared memory.
  const auto shared = shared_bytes + (target.has_async_copy ? 1024 : 0);
  const int warps = rounded_up(threads, kWarp) / kWarp;
  const int per_block = warps * rounded_up(registers * kWarp, kRegistersAtATime);
  auto most = std::min<std::int64_t>(target.blocks_per_sm, target.threads_per_sm / std::max(threads, 1));
  most = std::min<std::int64_t>(most, target.registers_per_sm / std::max(per_block, 1));
  return static_cast<int>(std::min(most, target.shared_per_sm / std::max<std::int64_t>(shared, 1)));
}

}  // namespace weft::explain
