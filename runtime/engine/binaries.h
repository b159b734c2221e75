#pragma once

#include "kernels_cache/store.h"
#include "runtime/engine/kernel_state.h"

#include <weft/weft.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weft {

/// From a key to a binary: the store first, else a compiler, whose work is published. What every backend that
/// compiles shares.
class Binaries {
 public:
  explicit Binaries(const EngineOptions& options);

  struct Found {
    cache::Entry entry;
    CacheOrigin origin = CacheOrigin::miss;
    double compile_ms = 0, load_ms = 0;
  };
  /// `launch` is what the runtime must know beside the binary; a stored entry with another is not used. `compile`
  /// fills in what came of compiling; launch and build time are added here. Environment error for a miss where
  /// compiling is forbidden.
  Result<Found> find_or_compile(const cache::Key& key, const std::string& launch,
                                const std::function<Result<cache::Entry>()>& compile) const;

  std::vector<std::string> take_warnings() const;

 private:
  void warn(std::string text) const;

  bool no_compile_;
  std::shared_ptr<cache::Store> store_;
  mutable std::mutex mutex_;
  mutable std::vector<std::string> warnings_;
};

/// The kernel that became of a binary.
Built built(std::shared_ptr<const Kernel::State> state, const Binaries::Found& binary, double emit_ms);

/// Wall time since construction.
class Stopwatch {
 public:
  double ms() const;

 private:
  std::int64_t start_ = now();
  static std::int64_t now();
};

}  // namespace weft
