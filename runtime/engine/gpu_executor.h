#pragma once

#include "codegen/cuda/emit.h"
#include "compiler/ir/plan.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/kernel_state.h"

namespace weft {

/// What executors of the CUDA text share, wherever they run it.
class GpuExecutor : public Executor {
 public:
  explicit GpuExecutor(const ir::Plan& plan) : plan_(plan), geometry_(codegen::cuda::geometry(plan)) {}

  std::optional<std::int64_t> shared_bytes(std::int64_t heads) const override {
    const auto tables = make_head_tables(plan_, heads);
    return tables ? std::optional(geometry_.shared_bytes(tables->tables.most_terms)) : std::nullopt;
  }

 protected:
  /// Kernels count positions and tiles in 32 bits. User error where a launch needs more.
  Status check_positions(const ir::Shape& shape) const;

  /// The blocks of threads that a step launches.
  struct Block {
    int threads = 0;
    std::int64_t shared_bytes = 0;
  };
  Block block_of(const Step& step) const;

  const ir::Plan& plan_;
  const codegen::cuda::Geometry geometry_;
};

}  // namespace weft
