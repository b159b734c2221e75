#pragma once

#include "runtime/cuda/functions.h"

#include <array>
#include <cstddef>

/// NCCL's functions as a table, filled by dlsym: no header of NCCL is needed to build Weft.
namespace weft::nccl {

struct CommHandle;

struct UniqueId {
  std::array<char, 128> bytes = {};
};

inline constexpr int kSuccess = 0, kInProgress = 7;
inline constexpr int kInt8 = 0;  // a data type

/// ncclConfig_t as NCCL 2.14 has it; later ones take it for what it says it is.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

struct Functions {
#define WEFT_NCCL_FUNCTION(result, name, parameters) result(*name) parameters = nullptr;
#include "runtime/ring/nccl/functions.def"
};

}  // namespace weft::nccl
