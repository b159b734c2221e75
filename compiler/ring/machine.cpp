#include "compiler/ring/machine.h"

#include "compiler/planner/cost.h"

#include <fmt/format.h>

namespace weft::ring {

namespace {

/// Links between GPUs, and between nodes of them.
Machine links_of(const Target& target) {
  if (target.has_async_copy) {
    return {.assumed = "8 a node, 360 GB/s inside it, 42 GB/s between nodes",
            .launch_s = 5e-6,
            .node = 8,
            .near_bytes_per_s = 360e9,
            .far_bytes_per_s = 42e9,
            .near_s = 6e-6,
            .far_s = 12e-6};
  }
  return {.assumed = "2 a node, 11 GB/s inside it, 1.2 GB/s between nodes",
          .launch_s = 5e-6,
          .node = 2,
          .near_bytes_per_s = 11e9,
          .far_bytes_per_s = 1.2e9,
          .near_s = 10e-6,
          .far_s = 30e-6};
}

}  // namespace

Machine machine_of(const ir::Plan& plan, const Target& target) {
  if (target.kind == TargetKind::cuda) {
    Machine out = links_of(target);
    const double peak = planner::peak_per_sm(plan, target) * target.card.sms * target.card.hertz * 2;
    out.flops_per_s = peak * planner::share_of_peak(plan, target);
    out.bytes_per_s = target.card.bytes_per_s;
    out.assumed =
        fmt::format("a {} a rank at {:.1f} TFLOP/s, {}", target.card.name, out.flops_per_s / 1e12, out.assumed);
    return out;
  }
  // A node of 64 cores at 2.5 GHz, two vectors of multiply-adds a clock, four fifths of which a kernel reaches.
  constexpr double kCores = 64, kHertz = 2.5e9, kReached = 0.8;
  Machine out{.assumed = {},
              .flops_per_s = kCores * kHertz * kReached * 4 * target.lanes() * plan.choices.products,
              .bytes_per_s = 200e9,
              .launch_s = 20e-6,
              .node = 1,
              .near_bytes_per_s = 11e9,
              .far_bytes_per_s = 11e9,
              .near_s = 12e-6,
              .far_s = 12e-6};
  out.assumed = fmt::format("a node of {:.0f} cores a rank at {:.2f} TFLOP/s, 11 GB/s between nodes", kCores,
                            out.flops_per_s / 1e12);
  return out;
}

}  // namespace weft::ring
