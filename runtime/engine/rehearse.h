#pragma once

#include "compiler/ir/steps.h"
#include "runtime/engine/compilation.h"

#include <cstdint>
#include <vector>

namespace weft {

/// A step at a launch's sizes, as it would be run.
struct Rehearsed {
  ir::Step step;
  std::int64_t blocks = 0;  ///< of threads, on a GPU; units of work
};

/// What a launch of this shape would run, in order, by the loop that runs it: kernels and their grids, without tensors.
/// Of a backward pass dQ, dK and dV are wanted, no gradients of inputs.
Result<std::vector<Rehearsed>> rehearse(const Compilation& kernel, const ir::Shape& shape);

}  // namespace weft
