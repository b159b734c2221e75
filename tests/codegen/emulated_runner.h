#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tensor.h"
#include "compiler/target/target.h"
#include "runtime/emulate/program.h"
#include "tests/codegen/arguments.h"

#include <memory>
#include <vector>

namespace weft::testing {

struct EmulatedOptions : RunOptions {
  emulate::Order order = emulate::Order::ascending;
  std::uint64_t seed = 0;
  int workers = 1;
};

/// The twin of CpuKernel: plans emitted for a CUDA target and run on the emulator.
class EmulatedKernel {
 public:
  static Result<EmulatedKernel> make(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target,
                                     const emulate::Options& options = {});
  static Result<EmulatedKernel> make(const ir::Plan& plan, const Target& target, const emulate::Options& options = {});

  const ir::Plan& plan() const { return plan_; }

  /// As CpuKernel::run. Any fault is an internal error with all of them as its notes. What was counted is added to
  /// `report` where one is given.
  Result<ir::Outcome> run(const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k, const ir::Tensor& v,
                          const std::vector<ir::Tensor>& inputs, const EmulatedOptions& options = {},
                          emulate::Report* report = nullptr) const;

 private:
  Result<std::shared_ptr<const emulate::Program>> program(ir::Regime regime) const;

  ir::Plan plan_;
  Target target_;
  emulate::Options options_;
};

}  // namespace weft::testing
