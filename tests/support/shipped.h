#pragma once

#include "compiler/ir/pattern.h"

#include <string>
#include <vector>

namespace weft::test {

/// A pattern of a file of the project.
struct Shipped {
  std::string file;
  ir::Pattern pattern;
};

/// Those of the folder's files that mean something as they stand, without parameters or bindings. A file that cannot be
/// read fails the test.
std::vector<Shipped> shipped_patterns(const std::string& folder);

}  // namespace weft::test
