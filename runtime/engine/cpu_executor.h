#pragma once

#include "codegen/args.h"
#include "compiler/ir/plan.h"
#include "runtime/cpu/sums.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/cpu_gradients.h"
#include "runtime/engine/cpu_kernels.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/scratch_pool.h"
#include "runtime/engine/workers.h"

#include <memory>
#include <optional>

namespace weft {

/// Runs a loaded CPU kernel: tables once per number of heads, then row tiles handed to threads, longest first.
/// Every tile is computed alone, so that results do not depend on how many threads share the work.
class CpuExecutor : public Executor {
 public:
  CpuExecutor(const ir::Plan& plan, std::unique_ptr<const CpuKernels> kernels, std::shared_ptr<const Workers> workers);

  Status run(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const override;
  Result<std::size_t> workspace(const ir::Shape& shape, int threads) const override;
  Result<BuildTimes> prepare(const ir::Shape& shape) const override;

 private:
  /// What depends on the number of heads only.
  struct PerHeads {
    HeadTables tables;
    std::size_t scratch = 0;  ///< bytes for one thread, a multiple of the alignment
  };
  Result<std::shared_ptr<const PerHeads>> per_heads(std::int64_t heads) const;
  Result<std::size_t> total_scratch(const PerHeads& per_heads, const ir::Shape& shape, int threads) const;
  /// Fills the lists that summarize conditions, which the kernel does itself.
  Status summarize(const Piece& piece, std::size_t scratch_of_thread, std::byte* scratch, int threads) const;
  /// The lists of a piece, and everything that is computed with them.
  Status run_piece(Piece& piece, const ir::Pattern& pattern, const Launch& launch, const PerHeads& per_heads,
                   std::byte* scratch, std::int32_t* lists, int threads, InputGradients& inputs) const;
  void run_phase(std::size_t phase, const codegen::cpu::MicroKernels& kernels, const PerHeads& per_heads,
                 const Piece& piece, std::byte* scratch, int threads) const;

  const ir::Plan& plan_;
  std::unique_ptr<const CpuKernels> kernels_;
  std::shared_ptr<const Workers> workers_;
  mutable KnownHeads<PerHeads> known_heads_;
  mutable ScratchPool pool_;
  mutable std::optional<cpu::PagePool> pages_;  ///< of gradients
};

}  // namespace weft
