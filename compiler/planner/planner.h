#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/plan.h"
#include "compiler/target/target.h"

/// `Pattern` × binding × `Target` → `Plan`. The passes stand in one table in planner.cpp; passes.h says
/// what each requires and guarantees. Time and size depend on the pattern's text only.
namespace weft::planner {

struct Options {
  /// key: the transposed relation, as the backward pass wants it.
  ir::Stationary stationary = ir::Stationary::query;
  /// The plan of gradients of inputs in place of that of dQ.
  bool of_inputs = false;
  /// Refuse, with diagnostics, what the kernels cannot run yet (off for interpreters of plans).
  bool for_kernels = true;
};

/// User errors name the construct that cannot be planned and where it stands in the file.
Result<ir::Plan> plan(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target,
                      const Options& options = {});

/// The work of ring rank `rank` of `ranks` on the keys that rank `from` owns: the pattern
/// intersected with own(rank) × own(from).
ir::Pattern hop_of(const ir::Pattern& pattern, ir::RingLayout layout, std::int64_t ranks, std::int64_t rank,
                   std::int64_t from);

}  // namespace weft::planner
