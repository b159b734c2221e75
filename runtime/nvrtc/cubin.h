#pragma once

#include <cstdint>
#include <string_view>

namespace weft::nvrtc {

/// Bytes of machine code of the longest kernel in a cubin; 0 for what is no cubin.
std::int64_t code_bytes(std::string_view cubin);

}  // namespace weft::nvrtc
