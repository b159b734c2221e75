#pragma once

#include "compiler/ir/few_rows.h"
#include "compiler/planner/analysis.h"
#include "runtime/engine/front.h"
#include "runtime/engine/rehearse.h"

#include <cstdint>
#include <vector>

namespace weft::explain {

/// What a plan does at given sizes.
struct Workload {
  ir::Regime regime = ir::Regime::many_queries;  ///< whose text computes O, or dQ
  planner::Work work;
  double flops = 0;  ///< useful: 2 (d + d_v) per kept pair, with multiplicity; of a backward pass 2 (3 d + 2 d_v)
  /// The same per pair that the kernel computes; of a backward pass in two, by query and by key, the seven products.
  double executed_flops = 0;
  planner::Work transposed;         ///< of the pass of dK and dV, where that is one of its own
  double bytes = 0;                 ///< Q, K, V, O and LSE, and the gradients of a backward pass, once
  double density = 0;               ///< kept pairs over all pairs
  std::int64_t heads_per_tile = 1;  ///< query heads of one kv head whose rows stand in one tile
  std::vector<Rehearsed> launches;  ///< kernels that a launch runs, with their grids
  double plan_us = 0;               ///< planning and making tables, both independent of the lengths
  bool inputs_missing = false;      ///< counts depend on inputs that were not given: they are 0
};

/// What a backward pass on a CPU keeps beside the tensors: scratch of each thread, and, for each unit of rows, pages of
/// what the keys that it touches get of dK and dV.
struct BackwardMemory {
  std::int64_t scratch_bytes = 0;
  std::int64_t page_keys = 0, page_bytes = 0;
};
Result<BackwardMemory> backward_memory(const Planned& planned, std::int64_t heads);

/// What a pass of the plan computes: all its pairs, kept or not, and those of the walk before dQ that finds deltas.
double executed_flops(const ir::Plan& plan, const planner::Work& work);

/// `inputs` may be empty where the pattern has some: then nothing is counted.
Result<Workload> workload_of(const Planned& planned, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs);

}  // namespace weft::explain
