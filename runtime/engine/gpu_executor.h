#pragma once

#include "codegen/cuda/emit.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/kernel_state.h"

#include <array>
#include <vector>

namespace weft {

/// What executors of the CUDA text share, wherever they run it.
class GpuExecutor : public Executor {
 public:
  explicit GpuExecutor(const Compilation& kernel);

  bool reads_sizes() const override { return true; }
  std::optional<std::int64_t> shared_bytes(ir::Regime text, std::int64_t heads) const override {
    const auto tables = kernel_.tables(heads, text);
    return tables ? std::optional(shared_memory(text).with_terms((*tables)->tables.most_terms)) : std::nullopt;
  }

 protected:
  /// Kernels count positions in 32 bits, and find sizes in the GPU's memory unless they make lists. User error where a
  /// launch needs more.
  Status check_shape(const ir::Shape& shape, bool sizes_in_memory) const;

  cuda::Grid grid_of(const Turn& turn) const;
  /// … whose memory goes by the terms of the tables?
  static bool has_tiles(ir::Step::Kernel kernel);

  /// Of the text that a regime has.
  const codegen::cuda::SharedMemory& shared_memory(ir::Regime regime) const {
    return shared_[static_cast<std::size_t>(regime)];
  }

 private:
  std::array<codegen::cuda::SharedMemory, ir::kRegimes> shared_ = {};
};

}  // namespace weft
