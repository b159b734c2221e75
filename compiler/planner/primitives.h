#pragma once

#include "compiler/planner/context.h"

/// What each built-in set means in half-lines, congruences and conditions on pairs. To add a set: a function of its
/// name in primitives.cpp.
namespace weft::planner {

/// The set as a union of conjunctions; null for operators, `all`, `blocks` and `where`.
using Primitive = Dnf (*)(const ir::Set& set, const Context& at);
Primitive find_primitive(ir::SetKind kind);

// Sets that have files of their own.
Dnf neighborhood(const ir::Set& set, const Context& at);
Dnf axial(const ir::Set& set, const Context& at);

}  // namespace weft::planner
