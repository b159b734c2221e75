#pragma once

#include "compiler/ir/plan.h"
#include "compiler/planner/analysis.h"
#include "compiler/target/target.h"

/// What the planner takes a kernel to cost before anything is compiled.
namespace weft::planner {

/// For each pair of a walk over keys. The forward multiplies for S and O; on GPUs the pass of dQ for S, dP and dQ, that
/// of dK and dV for S, dP, dK and dV; on CPUs one pass for all five.
std::int64_t multiplications(const ir::Plan& plan);

/// FMAs a clock of one SM, on the units that the kernel's class multiplies with.
double peak_per_sm(const ir::Plan& plan, const Target& target);

/// How much of it the loop over blocks of keys reaches: a count of issue slots and clocks, without memory. Where the
/// machine code can be read, laboratory/sass knows better.
double share_of_peak(const ir::Plan& plan, const Target& target);

/// Clocks of SMs for all of a launch whose kernel multiplies by matrix instructions.
double clocks_of_matrices(const ir::Plan& plan, const Target& target, const Work& work);

}  // namespace weft::planner
