#pragma once

#include "compiler/ring/backward.h"
#include "runtime/cpu/part.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/ring/transfers.h"

namespace weft {

/// The backward pass on one rank (compiler/ring/backward.h).
class Backward {
 public:
  /// `shape`: of the heads that the rank computes.
  static Result<Backward> make(const Kernel& kernel, const std::shared_ptr<KernelMemory>& memory,
                               const std::shared_ptr<KernelMemory>& messages, const ir::Shape& shape,
                               const ring::BackwardNeeds& needs, int rank);

  /// Collective. `own`: the rows that the rank computes. `wait_ms` grows by what it waits for what is needed.
  Status run(Link& link, const Kernel& kernel, const ring::Runs& own, const HeadSlice& heads, const RingArgs& args,
             double& wait_ms);

  std::size_t needed_bytes() const { return of_keys_.needed_bytes() + of_rows_.needed_bytes(); }
  std::size_t received_bytes() const { return of_keys_.received_bytes() + of_rows_.received_bytes(); }
  std::size_t sent_bytes() const { return of_keys_.sent_bytes() + of_rows_.sent_bytes(); }

 private:
  /// The gradients of inputs of a rank's rows, and then their sums over all ranks. `run`: the launch of the others.
  Status run_inputs(Link& link, const Kernel& kernel, const ring::Runs& own, RunArgs run, const RingArgs& args) const;

  Backward(Arena keys, Arena rows, Arena results, Transfers of_keys, Transfers of_rows, cpu::Part part)
      : keys_(std::move(keys)),
        rows_(std::move(rows)),
        results_(std::move(results)),
        of_keys_(std::move(of_keys)),
        of_rows_(std::move(of_rows)),
        part_(std::move(part)) {}

  Arena keys_;     ///< K, V
  Arena rows_;     ///< Q, dO, and where the weights are a softmax's O, LSE, dLSE
  Arena results_;  ///< dQ, dK, dV
  Transfers of_keys_, of_rows_;
  cpu::Part part_;
  std::shared_ptr<KernelMemory> memory_ = {};
  /// GPUs that scale dS: so many numbers the ranks agree on, and how often in a pass.
  std::int64_t bounds_ = 0, agreements_ = 0;
};

}  // namespace weft
