#pragma once

#include "codegen/args.h"
#include "runtime/cpu/sums.h"
#include "runtime/engine/cpu_gradients.h"
#include "runtime/engine/cpu_kernels.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/scratch_pool.h"
#include "runtime/engine/steps.h"
#include "runtime/engine/workers.h"

#include <functional>
#include <memory>
#include <optional>

namespace weft {

/// Runs a loaded CPU kernel: tables once per number of heads, then row tiles handed to threads, longest first.
/// Every tile is computed alone, so that results do not depend on how many threads share the work.
class CpuExecutor : public Executor {
 public:
  CpuExecutor(const Compilation& kernel, std::unique_ptr<const CpuKernels> kernels,
              std::shared_ptr<const Workers> workers);

  Status run(const Launch& launch, const RunArgs& args) const override;
  Result<std::size_t> workspace(const ir::Shape& shape, int threads) const override;
  Result<BuildTimes> prepare(const ir::Shape& shape, bool) const override;

 private:
  /// So many, 0: the engine's; without their scratch.
  Threads threads_for(const HeadTables& tables, int threads) const;
  using Units = std::function<void(weft_args& mine, std::int64_t begin, std::int64_t end)>;
  /// Hands a step's units to threads, up to `chunk` at a time.
  void share(const Turn& turn, const Threads& threads, std::int64_t chunk, const Units& compute) const;
  Status run_turn(const Turn& turn, const Threads& threads) const;
  Status run_gradients(const Job& job, const Room& room, const Threads& threads) const;
  /// A list that summarizes conditions, which the kernel does itself.
  void summarize(const Turn& list, const Threads& threads) const;
  Status attend(const Turn& phase, const Threads& threads) const;

  std::unique_ptr<const CpuKernels> kernels_;
  std::shared_ptr<const Workers> workers_;
  mutable ScratchPool pool_;
  mutable std::optional<cpu::PagePool> pages_;  ///< of gradients
};

}  // namespace weft
