#pragma once

#include "codegen/cuda/emit.h"
#include "compiler/ir/plan.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/kernel_state.h"

#include <functional>
#include <vector>

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
  /// One launch: which of the plan's kernels, on how many blocks of threads.
  struct Step {
    enum class Kernel { attend, merge } kernel = Kernel::attend;
    std::int64_t blocks = 0;
    weft_args* args = nullptr;
  };
  /// All launches of a phase of a piece, in order, behind cut_keys. Where keys are cut, the piece's `carry` is room for
  /// a group of heads (chunk_bytes), and groups take turns.
  Status each_step(std::size_t phase, const HeadTables& tables, Piece& piece,
                   const std::function<Status(const Step&)>& run) const;

  /// What the state of chunks of keys takes, for any positions of the rows.
  std::size_t chunk_bytes(const Launch& launch) const;
  /// … and for any lengths of sequences that are not above those of the shape.
  std::size_t most_chunk_bytes(const ir::Shape& shape) const;
  /// How the keys of each batch entry are cut: two numbers an entry, as weft_args::chunks_of_entry wants them. Empty
  /// where one position serves all, or keys are not cut. Sets what of this stands in the argument block.
  std::vector<std::int64_t> cut_keys(Piece& piece) const;

  const ir::Plan& plan_;
  const codegen::cuda::Geometry geometry_;

 private:
  std::size_t chunk_bytes(std::int64_t heads, std::int64_t n_q, std::int64_t n_k) const;
};

}  // namespace weft
