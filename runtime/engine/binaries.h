#pragma once

#include "compiler/base/fork_safe.h"
#include "kernels_cache/flights.h"
#include "kernels_cache/store.h"
#include "runtime/engine/compilation.h"
#include "runtime/engine/compilers.h"
#include "runtime/engine/shelf.h"
#include "runtime/engine/stopwatch.h"

#include <weft/weft.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft {

/// From a kernel's text to its binary: one's own store, then read-only ones, then bundles, else a compiler, whose work
/// is published. What every backend shares. Threads that want one kernel at once get what the first of them comes to,
/// and processes take turns (kernels_cache/once.h).
class Binaries {
 public:
  explicit Binaries(const EngineOptions& options, Compilers::For where = Compilers::For::this_machine);

  /// A text's name alone: from a note of it, else by binary_of().
  Binary name_of(const Compilation& kernel, ir::Regime text) const;

  /// `wanted`, which has its name, with the rest. A stored entry with another launch is
  /// not used, nor one that `loads` finds wrong by an internal error: that is a warning, and it is replaced. Where
  /// compiling is forbidden a miss is an environment error that names the kernel and says what there is.
  Result<Binary> find_or_compile(const Compilation& kernel, const Binary& wanted, const cache::Judge& loads) const;
  /// The same, loaded: `load` has succeeded with what is found.
  Result<Binary> find_and_load(const Compilation& kernel, const Binary& wanted, const cache::Judge& load) const;
  /// For who does not load it: it is a binary, as far as that can be told.
  Result<Binary> find_or_compile(const Compilation& kernel, const Binary& wanted) const;

  const Compilers& compilers() const { return compilers_; }

  /// Is there any to find notes in?
  bool has_stores() const;

  /// Would no compiler be needed?
  bool has(const Target& target, const Binary& binary) const;
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

  // Each gets the binary with its name and gives it with the rest.
  Result<Binary> find_or_make(const Compilation& kernel, Binary binary, const Result<cache::Key>& key,
                              const cache::Judge& is_that) const;
  bool find(const Compilation& kernel, Binary& binary, const Result<cache::Key>& key,
            const cache::Judge& is_that) const;
  Result<Binary> make(const Compilation& kernel, Binary binary, const cache::Key& key,
                      const cache::Judge& is_that) const;
  /// In one's own store, which has the kernel, or another store has it.
  void note(const Compilation& kernel, const Binary& binary) const;
  Error missing(const Compilation& kernel, const Binary& binary, const Result<cache::Key>& key) const;

  bool no_compile_;
  std::chrono::milliseconds wait_;
  std::function<void(const std::string&)> notice_;
  std::vector<std::shared_ptr<cache::Store>> stores_;  ///< the first is one's own, the others are not written
  Shelf bundles_;
  Compilers compilers_;
  mutable cache::Flights<Result<Binary>> flights_;
  mutable Counts counts_;
  mutable ForkSafe<> mutex_;
  mutable std::vector<std::string> warnings_;
};

}  // namespace weft
