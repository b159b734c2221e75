#pragma once

#include <cstdint>

namespace weft::cpu {

/// Asks for the cache lines of a row that is read soon.
inline void ask_for(std::int64_t address, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(reinterpret_cast<const void*>(address + at), 0, 3);
}

}  // namespace weft::cpu
