#pragma once

#include "compiler/target/target.h"
#include "kernels_cache/key.h"
#include "runtime/engine/binaries.h"
#include "runtime/engine/front.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/workers.h"

#include <weft/weft.h>

#include <memory>
#include <string>

namespace weft {

/// Plan to running code on the CPU: emit, look in the store, compile, publish, load.
class CpuBackend {
 public:
  explicit CpuBackend(const EngineOptions& options);
  Result<Built> build(Planned planned, const Binaries& binaries) const;

 private:
  std::string llvm_;
  std::shared_ptr<const Workers> workers_;
};

/// Everything that can change the bytes of the object that `source` becomes; `llvm` as in EngineOptions.
/// Environment error where there is no LLVM.
Result<cache::Key> cpu_kernel_key(const std::string& source, const Target& target, const std::string& llvm);

}  // namespace weft
