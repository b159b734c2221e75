#pragma once

#include "codegen/cuda/emit.h"
#include "compiler/ir/plan.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/kernel_state.h"

namespace weft {

/// What executors of the CUDA text share, wherever they run it.
class GpuExecutor : public Executor {
 public:
  explicit GpuExecutor(ir::Plan plan) : plan_(std::move(plan)), geometry_(codegen::cuda::geometry(plan_)) {}

  std::optional<std::int64_t> shared_bytes(std::int64_t heads) const override {
    const auto tables = make_head_tables(plan_, heads);
    return tables ? std::optional(geometry_.shared_bytes(tables->image.most_terms)) : std::nullopt;
  }

 protected:
  /// Kernels count positions and tiles in 32 bits. User error where a launch needs more.
  Status check_positions(const ir::Shape& shape) const;
  /// The piece's block for one phase: its number, and its tiles as one range. Returns how many there are.
  Result<std::int64_t> open_phase(std::size_t phase, const HeadTables& tables, Piece& piece) const;

  const ir::Plan plan_;
  const codegen::cuda::Geometry geometry_;
};

}  // namespace weft
