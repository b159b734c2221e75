#pragma once

#include "compiler/base/fork_safe.h"
#include "runtime/engine/binaries.h"
#include "runtime/engine/cpu_backend.h"
#include "runtime/engine/cuda_backend.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/recipe.h"
#include "runtime/object/identity.h"

#include <weft/weft.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

namespace weft {

/// Kernels of this process by request. Never forgets: a loaded kernel is a few kilobytes.
class KernelMap {
 public:
  std::shared_ptr<const Kernel::State> find(const std::string& request) const {
    std::shared_lock lock(mutex_);
    const auto it = kernels_.find(request);
    return it == kernels_.end() ? nullptr : it->second;
  }
  /// The one that was there first: two threads may build the same kernel, one is kept.
  std::shared_ptr<const Kernel::State> keep(const std::string& request, std::shared_ptr<const Kernel::State> state) {
    std::unique_lock lock(mutex_);
    return kernels_.emplace(request, std::move(state)).first->second;
  }

 private:
  mutable ForkSafe<std::shared_mutex> mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Kernel::State>> kernels_;
};

struct Engine::State {
  explicit State(const EngineOptions& options)
      : no_compile(options.no_compile),
        build_id(object::own_build()),
        binaries(options),
        cpu(options),
        record(options.record) {}

  /// One request on its way to a kernel.
  struct Request {
    const std::string& key;  ///< all of it, in words
    const Source& source;
    const CompileOptions& options;
    const Destination& destination;
  };
  /// For the destination, or where bundles lack that, for the best substitute that they have.
  Result<Prepared> prepare_best(Front front, const Request& request) const;
  /// For the destination, from one's stores' notes or anew.
  Result<Prepared> prepare_noted(Front front, const Request& request) const;
  Result<Built> emulate(Front front, const CompileOptions& options, const Target& target) const;
  Result<Built> build(Front front, const Request& request) const;

  bool no_compile;
  std::string build_id;  ///< of planner and emitters; empty: not known, and nothing is noted
  KernelMap kernels;
  Binaries binaries;
  CpuBackend cpu;
  Record record;
};

}  // namespace weft
