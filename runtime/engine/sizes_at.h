#pragma once

#include "runtime/engine/launch_checks.h"

#include <weft/weft.h>

#include <cstdint>
#include <string>
#include <vector>

/// RunArgs::sizes_at: sizes that kernels read when they run.
namespace weft {

/// What can be said of it before anybody reads what stands there.
Status check_sizes_at(const LaunchContract& contract, const RunArgs& args);

/// One of its arrays.
struct ArrayAt {
  std::string name;
  const void* data = nullptr;
  std::int64_t bytes = 0;
};
/// Those that are there.
std::vector<ArrayAt> arrays_at(const SizesAt& at);

/// A launch with the sizes that stand there as its own, for who computes where the host can read them.
class LaunchOnHost {
 public:
  static Result<LaunchOnHost> read(const LaunchContract& contract, const RunArgs& args);
  /// Of this object's memory.
  RunArgs args() const;

 private:
  RunArgs args_;
  std::vector<std::int64_t> cu_q_, cu_k_, kv_lengths_, offset_;
};

}  // namespace weft
