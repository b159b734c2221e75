#pragma once

#include "compiler/base/result.h"
#include "runtime/engine/destination.h"

#include <weft/weft.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace weft {

/// What can be wrong with an engine's options by itself. User error that names the option.
Status check_options(const EngineOptions& options);

/// Is there a backward pass for that? User error with K and V in pages.
Status check_gradient(const CompileOptions& options);

/// An option that counts milliseconds, as a duration. Clocks add no more than some centuries: whoever says more means
/// for ever.
inline std::chrono::milliseconds duration_of(std::int64_t milliseconds) {
  constexpr std::chrono::milliseconds kForEver = std::chrono::hours(24 * 365 * 100);
  return std::min(std::chrono::milliseconds(milliseconds), kForEver);
}

}  // namespace weft
