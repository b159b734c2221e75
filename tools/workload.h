#pragma once

#include "compiler/planner/analysis.h"
#include "runtime/engine/front.h"

#include <cstdint>
#include <vector>

namespace weft::tools {

/// What a plan does at given sizes.
struct Workload {
  planner::Work work;
  double flops = 0;                 ///< useful: 2 (d + d_v) per kept pair, with multiplicity
  double executed_flops = 0;        ///< the same per pair that the kernel computes
  double bytes = 0;                 ///< Q, K, V, O and LSE, once
  double density = 0;               ///< kept pairs over all pairs
  std::int64_t heads_per_tile = 1;  ///< query heads of one kv head whose rows stand in one tile
  double plan_us = 0;               ///< planning and making tables, both independent of the lengths
  bool inputs_missing = false;      ///< counts depend on inputs that were not given: they are 0
};

/// `inputs` may be empty where the pattern has some: then nothing is counted.
Result<Workload> workload_of(const Planned& planned, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs);

}  // namespace weft::tools
