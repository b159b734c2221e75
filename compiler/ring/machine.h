#pragma once

#include "compiler/ir/plan.h"
#include "compiler/target/target.h"

#include <cstdint>
#include <string>

namespace weft::ring {

/// What a ring's time is predicted from. Declared, never measured: every rank must come to the same owner map.
struct Machine {
  std::string assumed;  ///< in words
  double flops_per_s = 1, bytes_per_s = 1;
  double launch_s = 0;
  std::int64_t node = 1;  ///< ranks that share a node; neighbours in number
  double near_bytes_per_s = 1, far_bytes_per_s = 1;
  double near_s = 0, far_s = 0;  ///< before the first byte
};

/// A well-known machine of the plan's target.
Machine machine_of(const ir::Plan& plan, const Target& target);

}  // namespace weft::ring
