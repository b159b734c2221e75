#include "runtime/engine/engine_checks.h"

#include <fmt/format.h>

namespace weft {

Status check_options(const EngineOptions& options) {
  if (options.threads < 0 || options.threads > kMostThreads) {
    return user_error(fmt::format("EngineOptions::threads is {}; it must be 0 to {}", options.threads, kMostThreads));
  }
  for (const auto& [name, value] :
       {std::pair{"wait_ms", options.wait_ms}, std::pair{"deadline_ms", options.deadline_ms},
        std::pair{"memory_bytes", options.memory_bytes}}) {
    if (value < 0) return user_error(fmt::format("EngineOptions::{} is {}; it must be 0 or more", name, value));
  }
  for (const auto& image : options.linked_bundles) {
    if (image.data != nullptr || image.size == 0) continue;
    return user_error(
        fmt::format("EngineOptions::linked_bundles: {} has {} bytes and no data", image.name, image.size));
  }
  return done;
}

Status check_gradient(const CompileOptions& options) {
  if (!options.gradient || !options.paged) return done;
  return user_error("K and V in pages have no backward pass: leave out CompileOptions::paged, or ::gradient");
}

}  // namespace weft
