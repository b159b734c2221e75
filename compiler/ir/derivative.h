#pragma once

#include "compiler/ir/expr.h"

#include <vector>

namespace weft::ir {

/// The derivative of a real expression with respect to a real variable or an element of an input, `by`, real as well;
/// the constant 0 where it does not depend on it. Other elements are constants: one that another index reaches too adds
/// what it gives there. `abs`, `min`, `max` and `select` follow the branch that the value took, ties the first, and
/// `abs` is level at 0; conditions and integers have none (semantics section 5).
ExprPtr derivative(const ExprPtr& e, const ExprPtr& by);

/// The elements of f32 inputs that a real expression is made of, each once.
std::vector<ExprPtr> real_elements(const ExprPtr& e);

}  // namespace weft::ir
