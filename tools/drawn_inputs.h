#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/pattern_interpreter.h"
#include "tools/options.h"

/// The inputs of a picture, which shows who attends to whom and nothing of the scores.
namespace weft::tools {

/// Those that the options name, from their files; the others made up as `run` makes them, but lengths are whole, so
/// that the picture shows the pattern and not the padding. What no set reads has no values, and a large one is made up
/// where it is looked at: memory and time do not depend on the lengths. User error for a file that does not fit.
Result<ir::InputValues> inputs_to_draw(const Options& options, const ir::Pattern& pattern, const ir::Shape& shape);

}  // namespace weft::tools
