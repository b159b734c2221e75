#pragma once

#include "kernels_cache/store.h"
#include "runtime/engine/compilers.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/prepared.h"
#include "runtime/engine/shelf.h"
#include "runtime/engine/stopwatch.h"

#include <weft/weft.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weft {

/// From a kernel's text to its binary: the store first, then bundles, else a compiler, whose work is published.
/// What every backend shares.
class Binaries {
 public:
  explicit Binaries(const EngineOptions& options);

  struct Found {
    cache::Entry entry;
    CacheOrigin origin = CacheOrigin::miss;
    double compile_ms = 0, load_ms = 0;
  };
  /// A stored entry with another launch is not used. Where compiling is forbidden a miss is an
  /// environment error that names the kernel and says what there is.
  Result<Found> find_or_compile(const Prepared& kernel) const;

  /// Would no compiler be needed?
  bool has(const Prepared& kernel) const;
  const Shelf& bundles() const { return bundles_; }

  /// Each is kept once.
  void warn(std::string text) const;
  std::vector<std::string> take_warnings() const;

 private:
  std::optional<Found> find(const Prepared& kernel, const Result<cache::Key>& key) const;
  Error missing(const Prepared& kernel, const Result<cache::Key>& key) const;

  bool no_compile_;
  std::shared_ptr<cache::Store> store_;
  Shelf bundles_;
  Compilers compilers_;
  mutable std::mutex mutex_;
  mutable std::vector<std::string> warnings_;
};

/// The kernel that became of a binary.
Built built(std::shared_ptr<const Kernel::State> state, const Binaries::Found& binary, double emit_ms);

}  // namespace weft
