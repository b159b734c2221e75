#pragma once

#include "codegen/cuda/emit.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/kernel_state.h"

#include <array>

namespace weft {

/// Which of a plan's texts a step's kernel stands in.
ir::Regime regime_of(Step::Kernel kernel);

/// What executors of the CUDA text share, wherever they run it.
class GpuExecutor : public Executor {
 public:
  explicit GpuExecutor(const Compilation& kernel);

  std::optional<std::int64_t> shared_bytes(std::int64_t heads) const override {
    const auto tables = kernel_.tables(heads);
    return tables ? std::optional(geometry(ir::Regime::many_queries).shared_bytes((*tables)->tables.most_terms))
                  : std::nullopt;
  }

 protected:
  /// Kernels count positions and tiles in 32 bits. User error where a launch needs more.
  Status check_positions(const ir::Shape& shape) const;

  cuda::Grid grid_of(const Step& step) const;

  /// Of the plan that a regime has.
  const codegen::cuda::Geometry& geometry(ir::Regime regime) const {
    return geometries_[static_cast<std::size_t>(regime)];
  }

 private:
  std::array<codegen::cuda::Geometry, ir::kRegimes> geometries_ = {};
};

}  // namespace weft
