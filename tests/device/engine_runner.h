#pragma once

#include "compiler/ir/pattern.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tensor.h"
#include "compiler/target/target.h"
#include "tests/codegen/arguments.h"

#include <weft/weft.h>

#include <optional>
#include <vector>

namespace weft::testing {

/// A pattern on GPU 0 by the library's public face, so that the prepass, its lists and its summaries run there, too.
/// Has the shape of DeviceKernel.
class EngineKernel {
 public:
  /// Compiled from the pattern's own text for the GPU's row, whatever the target, for a first launch of this shape.
  static Result<EngineKernel> make(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target,
                                   const ir::Shape& shape);
  /// By an engine that may know the kernel already.
  static Result<EngineKernel> make(const Engine& engine, const ir::Pattern& pattern, const ir::Bind& bind,
                                   const std::optional<ir::Shape>& shape = {});

  /// Runs on the device; the layout is the only option that is heard.
  Result<ir::Outcome> run(const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k, const ir::Tensor& v,
                          const std::vector<ir::Tensor>& inputs, const RunOptions& options = {}) const;

  const Kernel& kernel() const { return *kernel_; }

 private:
  ir::Pattern pattern_;
  ir::Bind bind_;
  std::optional<Kernel> kernel_;
};

}  // namespace weft::testing
