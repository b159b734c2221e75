#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"

#include <string>
#include <vector>

namespace weft::bench {

/// The patterns of examples/ and tests/patterns/, those left out that need a parameter: what people publish, and what
/// the tests of the compiler compile. Sorted by file.
Result<std::vector<ir::Pattern>> corpus(const std::string& source_folder);

}  // namespace weft::bench
