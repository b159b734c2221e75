#pragma once

#include "compiler/base/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

/// Structs that callers of other versions made.
namespace weft::c_api {

/// What of the caller's struct this library knows, defaults behind it. User error where the caller is newer and says
/// something that this library would not heed; also for a size that no version had.
template <typename T>
Result<T> read_versioned(const T* from, const char* name, T defaults) {
  if (from == nullptr) return defaults;
  constexpr std::size_t kLargest = 4096;
  std::size_t size = 0;
  std::memcpy(&size, from, sizeof size);
  if (size < sizeof size || size > kLargest) {
    return user_error(fmt::format("the size of {} is {}; begin with its _init function", name, size));
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(from);
  const auto behind = [](unsigned char byte) { return byte != 0; };
  if (size > sizeof(T) && std::any_of(bytes + sizeof(T), bytes + size, behind)) {
    return user_error(fmt::format("{} sets a field that this version of Weft does not know", name));
  }
  std::memcpy(&defaults, from, std::min(size, sizeof(T)));
  return defaults;
}

}  // namespace weft::c_api
