#pragma once

#include "compiler/planner/planner.h"
#include "tests/support/coverage.h"
#include "tests/support/random_pattern.h"

#include <string>

/// What a plan visits, against the meaning of its pattern pair by pair.
namespace weft::planner {

using test::Coverage;
using test::RandomProblem;

/// Head dims do not matter here, but a plan has some.
inline ir::Bind bind_of() { return {.d = 64, .d_v = 64}; }

inline Target target() { return find_target("cpu:x86-64-v3").value(); }

inline Options options(ir::Stationary stationary) { return {.stationary = stationary, .for_kernels = false}; }

/// Empty when the plan's visits are the pattern's pairs, and its text comes back as it was.
std::string check(const RandomProblem& problem, ir::Stationary stationary, const Target& on = target());

}  // namespace weft::planner
