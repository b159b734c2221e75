#pragma once

#include "codegen/cpu/micro_kernels.h"
#include "codegen/source.h"
#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tensor.h"
#include "compiler/target/target.h"
#include "tests/codegen/arguments.h"

#include <memory>
#include <string>
#include <vector>

/// Plans compiled for the CPU and run on f64 tensors, without the engine: what the tests of planner and
/// code generation need.
namespace weft::testing {

class CpuKernel {
 public:
  /// Compiled for the target; kernels with equal text are compiled once.
  static Result<CpuKernel> make(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target);
  static Result<CpuKernel> make(const ir::Plan& plan, const Target& target);

  const ir::Plan& plan() const { return plan_; }

  /// Values are rounded to the bound dtype on the way in; O comes back as the kernel stored it. Rows are
  /// poisoned before. `max_abs_score` is not set.
  Result<ir::Outcome> run(const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k, const ir::Tensor& v,
                          const std::vector<ir::Tensor>& inputs, const RunOptions& options = {}) const;

 private:
  Status add(const codegen::Source& source, const Target& target);

  ir::Plan plan_;
  std::vector<std::shared_ptr<const void>> objects_;
  codegen::cpu::MicroKernels kernels_;
};

}  // namespace weft::testing
