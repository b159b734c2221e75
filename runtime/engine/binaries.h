#pragma once

#include "compiler/base/fork_safe.h"
#include "kernels_cache/flights.h"
#include "kernels_cache/store.h"
#include "runtime/engine/compilers.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/prepared.h"
#include "runtime/engine/shelf.h"
#include "runtime/engine/stopwatch.h"

#include <weft/weft.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// From a kernel's text to its binary: one's own store, then read-only ones, then bundles, else a compiler, whose work
/// is published. What every backend shares. Threads that want one kernel at once get what the first of them comes to,
/// and processes take turns (kernels_cache/once.h).
class Binaries {
 public:
  explicit Binaries(const EngineOptions& options, Compilers::For where = Compilers::For::this_machine);

  struct Found {
    cache::Entry entry;
    CacheOrigin origin = CacheOrigin::miss;
    std::string place = {};  ///< the directory of the store, the name of the bundle
    double emit_ms = 0, compile_ms = 0, load_ms = 0;
  };
  /// A stored entry with another launch is not used, nor one that `loads` finds wrong by an internal error: that is a
  /// warning, and it is replaced. Where compiling is forbidden a miss is an environment error that names the kernel and
  /// says what there is.
  Result<Found> find_or_compile(const Prepared& kernel, const cache::Judge& loads) const;
  /// The same, loaded: `load` has succeeded with what is returned.
  Result<Found> find_and_load(const Prepared& kernel, const cache::Judge& load) const;
  /// For who does not load it: it is a binary, as far as that can be told.
  Result<Found> find_or_compile(const Prepared& kernel) const;

  const Compilers& compilers() const { return compilers_; }

  /// Is there any to find notes in?
  bool has_stores() const;

  /// Would no compiler be needed?
  bool has(const Prepared& kernel) const;
  const Shelf& bundles() const { return bundles_; }
  const std::vector<std::shared_ptr<cache::Store>>& stores() const { return stores_; }

  /// Each is kept once.
  void warn(std::string text) const;
  std::vector<std::string> take_warnings() const;

  CacheStats stats() const;
  void count_memory_hit() const { count(counts_.memory); }

 private:
  struct Counts {
    std::atomic<std::uint64_t> memory{0}, bundles{0}, misses{0}, compiled{0};
  };
  static void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

  /// A kernel that is wanted, and what tells whether an entry is that.
  struct Wanted {
    Wanted(const Prepared& what, const cache::Judge& how);
    Wanted(const Wanted&) = delete;
    Wanted& operator=(const Wanted&) = delete;
    const Prepared& kernel;
    const cache::Judge& loads;
    cache::Judge is_that;
  };
  Result<Found> find_or_make(const Wanted& wanted, const Result<cache::Key>& key) const;
  std::optional<Found> find(const Wanted& wanted, const Result<cache::Key>& key) const;
  Result<Found> make(const Wanted& wanted, const cache::Key& key) const;
  Result<Found> emit_and_make(const Wanted& wanted) const;
  /// In one's own store, which has the kernel, or another store has it.
  void note(const Prepared& kernel) const;
  Error missing(const Prepared& kernel, const Result<cache::Key>& key) const;

  bool no_compile_;
  std::chrono::milliseconds wait_;
  std::function<void(const std::string&)> notice_;
  std::vector<std::shared_ptr<cache::Store>> stores_;  ///< the first is one's own, the others are not written
  Shelf bundles_;
  Compilers compilers_;
  mutable cache::Flights<Result<Found>> flights_;
  mutable Counts counts_;
  mutable ForkSafe<> mutex_;
  mutable std::vector<std::string> warnings_;
};

/// The kernel that became of a binary.
Built built(std::shared_ptr<const Kernel::State> state, const Binaries::Found& binary, double emit_ms);

}  // namespace weft
