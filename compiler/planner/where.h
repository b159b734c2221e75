#pragma once

#include "compiler/planner/context.h"

#include <optional>

/// `where(…)`: comparisons of positions become half-lines and strides, so that a window written out costs what
/// `window` costs. What is no such comparison stays a condition on pairs.
namespace weft::planner {

/// The condition, over token variables, as a union of conjunctions; empty when it falls into too many pieces.
std::optional<Dnf> pieces_of(const ir::ExprPtr& condition, const Context& at);

}  // namespace weft::planner
