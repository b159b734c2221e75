#pragma once

#include "compiler/base/fork_safe.h"
#include "kernels_cache/flights.h"
#include "runtime/engine/binaries.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/recipe.h"
#include "runtime/engine/workers.h"
#include "runtime/object/identity.h"

#include <weft/weft.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

namespace weft {

/// Kernels of this engine by request. Where there may be so many only, the one that was not asked for the longest makes
/// room for a new one; who holds it keeps it.
class KernelMap {
 public:
  using Kept = std::shared_ptr<const Kernel::State>;

  /// 0: as many as are asked for.
  explicit KernelMap(std::size_t most) : most_(most) {}

  Kept find(const std::string& request) const {
    const std::shared_lock lock(mutex_);
    const auto it = kernels_.find(request);
    if (it == kernels_.end()) return nullptr;
    if (most_ > 0) it->second.used = ++uses_;
    return it->second.state;
  }
  void keep(const std::string& request, Kept state) {
    Kept oldest;  // unloaded when others may go on
    const std::unique_lock lock(mutex_);
    auto& kernel = kernels_.try_emplace(request).first->second;
    kernel.state = std::move(state);
    kernel.used = ++uses_;
    if (most_ == 0 || kernels_.size() <= most_) return;
    const auto at = std::min_element(kernels_.begin(), kernels_.end(), [](const auto& a, const auto& b) {
      return a.second.used.load() < b.second.used.load();
    });
    oldest = std::move(at->second.state);
    kernels_.erase(at);
  }

 private:
  struct Entry {
    Kept state;
    mutable std::atomic<std::uint64_t> used{0};
  };
  const std::size_t most_;
  mutable ForkSafe<std::shared_mutex> mutex_;
  mutable std::atomic<std::uint64_t> uses_{0};
  std::unordered_map<std::string, Entry> kernels_;
};

struct Engine::State {
  explicit State(const EngineOptions& options)
      : no_compile(options.no_compile),
        build_id(object::own_build()),
        kernels(options.most_kernels),
        binaries(std::make_shared<const Binaries>(options)),
        workers(std::make_shared<const Workers>(options.threads)),
        record(options.record) {}

  /// One request on its way to a kernel.
  struct Request {
    const std::string& key;  ///< all of it, in words
    std::string_view text;
    const CompileOptions& options;
    const Destination& destination;
  };
  using Made = std::shared_ptr<Kernel::State>;

  Result<Kernel> compile(std::string_view text, const CompileOptions& options);
  Result<Made> named(Planned planned, const CompileOptions& options, std::optional<cache::Key> memo = {},
                     std::optional<Binary> known = {}) const;
  Result<Made> plan_and_name(Front front, const CompileOptions& options, const Target& target,
                             std::optional<cache::Key> memo = {}) const;
  /// From everywhere but this engine's memory.
  Result<Made> find_or_build(const std::string& key, std::string_view text, const CompileOptions& options) const;
  /// For the destination, or where bundles lack that, for the best substitute that they have.
  Result<Made> plan_best(Front front, const Request& request) const;
  /// For the destination, from one's stores' notes or anew.
  Result<Made> plan_noted(Front front, const Request& request) const;
  Status load(Kernel::State& kernel, const Request& request) const;

  bool no_compile;
  std::string build_id;  ///< of planner and emitters; empty: not known, and nothing is noted
  KernelMap kernels;
  cache::Flights<Result<KernelMap::Kept>> flights;  ///< by request: of threads that want one kernel, one makes it
  std::shared_ptr<const Binaries> binaries;         ///< also of kernels, which may yet need further ones
  std::shared_ptr<const Workers> workers;
  Record record;
};

}  // namespace weft
