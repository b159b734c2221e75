#pragma once

#include "runtime/engine/binaries.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/prepared.h"
#include "runtime/engine/workers.h"

#include <weft/weft.h>

#include <memory>

namespace weft {

/// Texts to running code on the CPU: look in stores and bundles, else compile; load.
class CpuBackend {
 public:
  explicit CpuBackend(const EngineOptions& options);
  Result<Built> build(Prepared prepared, std::shared_ptr<const Binaries> binaries) const;

 private:
  std::shared_ptr<const Workers> workers_;
};

}  // namespace weft
