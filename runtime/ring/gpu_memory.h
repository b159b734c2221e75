#pragma once

#include "runtime/cuda/device.h"
#include "runtime/ring/memory.h"

namespace weft {

/// Environment error where the driver is too old to copy lines.
Result<std::shared_ptr<KernelMemory>> gpu_memory(std::shared_ptr<const cuda::Device> device);

}  // namespace weft
