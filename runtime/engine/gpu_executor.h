#pragma once

#include "codegen/cuda/emit.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/kernel_state.h"

namespace weft {

/// What executors of the CUDA text share, wherever they run it.
class GpuExecutor : public Executor {
 public:
  explicit GpuExecutor(const Compilation& kernel) : Executor(kernel), geometry_(codegen::cuda::geometry(kernel.plan)) {}

  std::optional<std::int64_t> shared_bytes(std::int64_t heads) const override {
    const auto tables = kernel_.tables(heads);
    return tables ? std::optional(geometry_.shared_bytes((*tables)->tables.most_terms)) : std::nullopt;
  }

 protected:
  /// Kernels count positions and tiles in 32 bits. User error where a launch needs more.
  Status check_positions(const ir::Shape& shape) const;

  cuda::Grid grid_of(const Step& step) const;

  const codegen::cuda::Geometry geometry_;
};

}  // namespace weft
