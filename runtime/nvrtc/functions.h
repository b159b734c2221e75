#pragma once

#include <cstddef>

/// NVRTC's C API as a table of functions, filled by dlsym. Our own declarations: no header of CUDA is needed to
/// build Weft, and no library of it to link.
namespace weft::nvrtc {

struct Program;  ///< NVRTC's; only its address passes through here

// NVRTC's statuses, as far as they are told apart.
inline constexpr int kSuccess = 0;
inline constexpr int kOutOfMemory = 1;

struct Functions {
#define WEFT_NVRTC_FUNCTION(name, parameters) int(*name) parameters = nullptr;
#include "runtime/nvrtc/functions.def"
  const char* (*GetErrorString)(int status) = nullptr;  ///< the one that returns no status
};

}  // namespace weft::nvrtc
