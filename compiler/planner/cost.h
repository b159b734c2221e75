#pragma once

#include "compiler/ir/plan.h"
#include "compiler/target/target.h"

/// What the planner takes a GPU's kernel to cost before anything is compiled.
namespace weft::planner {

/// FMAs a clock of one SM, on the units that the kernel's class multiplies with.
double peak_per_sm(const ir::Plan& plan, const Target& target);

/// How much of it the loop over blocks of keys reaches: a count of issue slots and clocks, without memory. Where the
/// machine code can be read, runtime/sass knows better.
double share_of_peak(const ir::Plan& plan, const Target& target);

}  // namespace weft::planner
