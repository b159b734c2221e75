#pragma once

#include "compiler/ir/expr.h"

#include <string>
#include <string_view>

/// Expressions in the prefix form that plans are written in: `(add (mul h 2) 1)`. Reals start with `r`, so that types
/// come back as they were.
namespace weft::ir {

std::string prefix_text(const Expr& e);

/// Reads one expression from the front of `text` and removes it. Null when it is not understood, too deep, or puts
/// operands of the wrong type together.
ExprPtr read_prefix(std::string_view& text);

}  // namespace weft::ir
