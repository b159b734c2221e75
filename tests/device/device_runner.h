#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tensor.h"
#include "runtime/cuda/module.h"
#include "tests/codegen/arguments.h"

#include <array>
#include <memory>
#include <vector>

namespace weft::testing {

/// The twin of CpuKernel and EmulatedKernel: plans compiled with NVRTC and run on a GPU.
class DeviceKernel {
 public:
  /// On GPU 0, for which `target` is a fitting row.
  static Result<DeviceKernel> make(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target);

  /// As CpuKernel::run. All memory goes to the device and back.
  Result<ir::Outcome> run(const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k, const ir::Tensor& v,
                          const std::vector<ir::Tensor>& inputs, const RunOptions& options = {}) const;

 private:
  /// The kernel of one text, compiled when it is first asked for.
  Result<std::shared_ptr<const cuda::Module>> module(ir::Regime regime) const;

  ir::Plan plan_;
  Target target_;
  mutable std::array<std::shared_ptr<const cuda::Module>, ir::kRegimes> modules_;
};

/// The row that GPU 0 runs best. Environment error where there is no usable GPU.
Result<Target> device_row();

}  // namespace weft::testing
