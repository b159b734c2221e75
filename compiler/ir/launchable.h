#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/tensor.h"

/// What a pattern does not mean at some sizes. One list for the interpreter and for every target: what one refuses all
/// refuse, in the same words.
namespace weft::ir {

/// Do head ranges exist, neighborhoods fit into the sequence, and positions used as indices begin at 0 or later? Sizes
/// agree with the pattern's own, and each is 1 or more.
Status check_meaning(const Pattern& pattern, const Shape& shape);

/// Does an index surely leave its input or its list for a pair that is surely kept? The message names the expression,
/// the index and the extent. What depends on data is not known here: kernels clamp it, and a check says so.
Status check_indices(const Pattern& pattern, const Shape& shape);

/// Elements of an axis.
std::int64_t extent_of(const Axis& axis, const Input& input, const Shape& shape);

}  // namespace weft::ir
