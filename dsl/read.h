#pragma once

#include "dsl/ast.h"

#include <vector>

namespace weft::dsl {

/// A text as far as it can be read; the file is whole only when there are no problems.
struct Read {
  File file;
  std::vector<Diagnostic> problems;  ///< sorted by place; fixes in them are not tried yet
};

Read read(const Source& source);

}  // namespace weft::dsl
