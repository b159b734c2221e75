#pragma once

#include "compiler/base/result.h"
#include "runtime/cuda/memory.h"
#include "tools/gradient_operands.h"
#include "tools/operands.h"

#include <weft/weft.h>

#include <memory>
#include <vector>

namespace weft::tools {

/// A launch's tensors copied to a GPU, and the results back.
class DeviceOperands {
 public:
  static Result<DeviceOperands> copy_in(std::shared_ptr<const cuda::Device> device, const Operands& operands);

  /// `host`, which was made of the same operands, with every pointer replaced by the copy's.
  RunArgs args(RunArgs host, Views& views) const;

  /// The outputs as they are on the host: poison, before a launch.
  Status reset(const Operands& operands) const;
  /// Waits for what was launched, and fetches the outputs.
  Status copy_out(Operands& operands) const;

 private:
  cuda::Buffer q_, k_, v_, out_, lse_, branch_lse_;
  std::vector<cuda::Buffer> inputs_, lists_;
};

/// The same of what a backward pass has beside them.
class DeviceGradients {
 public:
  static Result<DeviceGradients> copy_in(std::shared_ptr<const cuda::Device> device, const GradientOperands& gradients);
  /// `args`, which GradientOperands::args made, with those pointers replaced that are the backward pass's own.
  RunArgs args(RunArgs args);
  /// The gradients as they are on the host: poison, before a launch.
  Status reset(const GradientOperands& gradients) const;
  Status copy_out(GradientOperands& gradients) const;

 private:
  cuda::Buffer d_out_, dq_, dk_, dv_;
  std::vector<cuda::Buffer> d_inputs_;  ///< those with bytes
  std::vector<NamedOutput> views_;
};

}  // namespace weft::tools
