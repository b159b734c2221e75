#pragma once

#include "compiler/ir/plan.h"
#include "compiler/target/target.h"
#include "kernels_cache/store.h"
#include "runtime/engine/front.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/workers.h"
#include "runtime/llvm/compile.h"

#include <weft/weft.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weft {

/// Plan to running code on the CPU: emit, look in the store, compile, publish, load.
class CpuBackend {
 public:
  explicit CpuBackend(EngineOptions options);

  struct Built {
    std::shared_ptr<const Kernel::State> state;
    CacheOrigin origin = CacheOrigin::miss;
    double compile_ms = 0, load_ms = 0;
  };
  Result<Built> build(Planned planned) const;

  std::vector<std::string> take_warnings() const;
  cache::Store& store() const { return *store_; }

 private:
  struct Binary {
    cache::Entry entry;
    CacheOrigin origin = CacheOrigin::miss;
    double compile_ms = 0, load_ms = 0;
  };
  Result<Binary> find_or_compile(const cache::Key& key, const std::string& source, const std::string& symbol,
                                 const std::string& plan_text, const Target& target) const;
  void warn(std::string text) const;

  EngineOptions options_;
  std::shared_ptr<cache::Store> store_;
  std::shared_ptr<const Workers> workers_;
  mutable std::mutex mutex_;
  mutable std::vector<std::string> warnings_;
};

/// Everything that can change the bytes of the object that `source` becomes; `llvm` as in EngineOptions.
/// Environment error where there is no LLVM.
Result<cache::Key> cpu_kernel_key(const std::string& source, const Target& target, const std::string& llvm);

}  // namespace weft
