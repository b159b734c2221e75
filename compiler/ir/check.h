#pragma once

#include "compiler/base/diagnostic.h"
#include "dsl/ast.h"

#include <vector>

namespace weft::ir {

/// Names, types, argument lists, values that are known without parameters. Every finding is returned;
/// an error among them means the file must not be lowered.
std::vector<Diagnostic> check(const dsl::File& file, const Source& source);

/// Everything that reading, and then checking, finds: what `dsl::parse` tries its fixes with.
std::vector<Diagnostic> examine(const Source& source);

}  // namespace weft::ir
