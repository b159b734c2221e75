#pragma once

#include <string>

namespace weft::codegen {

/// A plan spelled for one target: text for its compiler, and the name of the kernel in it.
struct Source {
  std::string text;
  std::string symbol;
};

}  // namespace weft::codegen
