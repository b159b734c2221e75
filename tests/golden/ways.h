#pragma once

#include "compiler/target/target.h"
#include "tests/golden/case.h"

#include <string>

namespace weft::golden {

/// One way of computing a pattern. To add one, add its row.
struct Way {
  const char* name;
  Result<ir::Outcome> (*run)(const GoldenCase& golden);
  /// Why it cannot do this case; empty when it can. Kernels refuse constructs that they do not have by name.
  std::string (*skip)(const GoldenCase& golden);
  /// Of the case's dO. Null: this way computes no gradients.
  Result<ir::Gradients> (*gradients)(const GoldenCase& golden) = nullptr;
};

/// Pattern interpreter, plan interpreter, kernels of this machine's CPU and, emulated, of sm_61.
extern const Way kWays[4];

/// What the planner says to the case's pattern; empty when it has a plan.
std::string refused(const GoldenCase& golden);

}  // namespace weft::golden
