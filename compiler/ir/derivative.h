#pragma once

#include "compiler/ir/expr.h"

namespace weft::ir {

/// The derivative of a real expression with respect to `s`, real as well; the constant 0 where it does not depend on
/// it. `abs`, `min`, `max` and `select` follow the branch that the value took, ties the first; elements of inputs,
/// conditions and integers have none (semantics section 5).
ExprPtr derivative(const ExprPtr& e);

}  // namespace weft::ir
