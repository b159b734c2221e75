#pragma once

#include "runtime/engine/binaries.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/prepared.h"

#include <weft/weft.h>

namespace weft {

/// Texts to a kernel for GPUs: look in stores and bundles, else compile; load where there is a GPU. Nothing but
/// loading needs one.
class CudaBackend {
 public:
  static Result<Built> build(Prepared prepared, const Destination& destination, const Binaries& binaries);

  /// The emitted text on the host. Not stored: what the host's compiler makes is not passive data.
  static Result<Built> emulate(Planned planned);
};

}  // namespace weft
