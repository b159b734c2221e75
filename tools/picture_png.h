#pragma once

#include "runtime/draw/picture.h"

#include <string>

namespace weft::tools {

/// A few pixels a cell.
std::string to_png(const draw::Picture& picture);

}  // namespace weft::tools
