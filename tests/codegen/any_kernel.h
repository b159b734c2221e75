#pragma once

#include "tests/codegen/cpu_runner.h"
#include "tests/codegen/emulated_runner.h"

#include <variant>

namespace weft::testing {

/// What a test computes with on a target: what its best kernels do. `cpu` is f32 on every machine.
inline ir::DType best_dtype(const std::string& name) {
  const Target target = find_target(name).value();
  if (target.has_mma) return ir::DType::f16;
  return target.bf16_dot_pays() && name != "cpu" ? ir::DType::bf16 : ir::DType::f32;
}

/// Can a test run its kernels here: on this processor, or emulated?
inline bool can_run(const std::string& name) {
  const Target target = find_target(name).value();
  return target.kind == TargetKind::cuda || host_can_execute(target);
}

/// A kernel for any target, behind one face: compiled for the CPU, or emitted as CUDA and emulated. So that one body
/// of a test is true of both.
class AnyKernel {
 public:
  static Result<AnyKernel> make(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target) {
    if (target.kind == TargetKind::cuda) {
      WEFT_TRY(auto emulated, EmulatedKernel::make(pattern, bind, target));
      return AnyKernel(std::move(emulated));
    }
    WEFT_TRY(auto compiled, CpuKernel::make(pattern, bind, target));
    return AnyKernel(std::move(compiled));
  }

  const ir::Plan& plan() const {
    return std::visit([](const auto& k) -> const ir::Plan& { return k.plan(); }, kernel_);
  }

  Result<ir::Outcome> run(const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k, const ir::Tensor& v,
                          const std::vector<ir::Tensor>& inputs, const RunOptions& options = {}) const {
    if (const auto* emulated = std::get_if<EmulatedKernel>(&kernel_)) {
      return emulated->run(shape, q, k, v, inputs, EmulatedOptions{options, emulate::Order::ascending, 0, 2});
    }
    return std::get<CpuKernel>(kernel_).run(shape, q, k, v, inputs, options);
  }

 private:
  using Held = std::variant<CpuKernel, EmulatedKernel>;
  explicit AnyKernel(Held kernel) : kernel_(std::move(kernel)) {}
  Held kernel_;
};

}  // namespace weft::testing
