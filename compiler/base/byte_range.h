#pragma once

#include <cstddef>

namespace weft {

/// Bytes [begin, end) of some memory.
struct ByteRange {
  std::size_t begin = 0, end = 0;
};

}  // namespace weft
