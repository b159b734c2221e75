#pragma once

#include "compiler/ir/tensor.h"

namespace weft::ir {

/// Semantics section 9: `into` and `part` are results for disjoint keys of the same rows; `into` becomes the result
/// for all of them. Rows without keys have LSE -inf and leave the other side as it is. Per-branch LSEs are not merged.
void merge(Outcome& into, const Outcome& part);

}  // namespace weft::ir
