#pragma once

#include "compiler/base/diagnostic.h"
#include "compiler/ir/pattern.h"

#include <optional>

namespace weft::ir {

/// A score that jumps as `s` moves, by a `select` whose values differ where its condition turns or by rounding: whoever
/// trains with it should know that gradients are those beside the jump. Found by following the score of a few pairs
/// along `s`; a jump that moves no weight is none. Cost: milliseconds.
std::optional<Diagnostic> warn_of_jumps(const Pattern& pattern);

}  // namespace weft::ir
