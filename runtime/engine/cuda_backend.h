#pragma once

#include "codegen/cuda/emit.h"
#include "codegen/source.h"
#include "kernels_cache/key.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/binaries.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/front.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/nvrtc/compile.h"

#include <weft/weft.h>

#include <memory>
#include <string>

namespace weft {

/// Plan to a kernel for GPUs: emit, look in the store, compile with NVRTC, publish, load where there is a GPU.
/// Neither compiling nor the store needs one.
class CudaBackend {
 public:
  explicit CudaBackend(const EngineOptions& options);
  Result<Built> build(Planned planned, const Destination& destination, const Binaries& binaries) const;

  /// The emitted text on the host. Not stored: what the host's compiler makes is not passive data.
  static Result<Built> emulate(Planned planned);

 private:
  Result<Binaries::Found> binary_of(const codegen::Source& source, const codegen::cuda::Geometry& geometry,
                                    const ir::Plan& plan, const Target& target, const Binaries& binaries) const;

  EngineOptions options_;
};

/// What an engine tells NVRTC about the pattern of this name.
nvrtc::Options nvrtc_options(const EngineOptions& options, const std::string& name);

/// Everything that can change the bytes of the cubin that `source` becomes; `nvrtc` as in EngineOptions.
/// Environment error where no NVRTC knows the target.
Result<cache::Key> cuda_kernel_key(const codegen::Source& source, const codegen::cuda::Geometry& geometry,
                                   const Target& target, const std::string& nvrtc);

}  // namespace weft
