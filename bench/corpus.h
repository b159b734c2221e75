#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"

#include <string>
#include <vector>

namespace weft::bench {

/// One pattern of a file.
struct Listed {
  std::string file, text, name;
};
/// All of examples/ and tests/patterns/, sorted by file.
Result<std::vector<Listed>> corpus_texts(const std::string& source_folder);

/// The patterns of examples/ and tests/patterns/, those left out that need a parameter: what people publish, and what
/// the tests of the compiler compile. Sorted by file.
Result<std::vector<ir::Pattern>> corpus(const std::string& source_folder);

}  // namespace weft::bench
