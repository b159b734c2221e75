#include "runtime/engine/gpu_executor.h"

#include "codegen/cuda/conditions.h"
#include "codegen/cuda/intervals.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

namespace weft {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

}  // namespace

GpuExecutor::GpuExecutor(const Compilation& kernel) : Executor(kernel) {
  for (const auto regime : ir::regimes_of(kernel.plan))
    geometries_[static_cast<std::size_t>(regime)] = codegen::cuda::geometry(ir::plan_of(kernel.plan, regime));
}

ir::Regime regime_of(Step::Kernel kernel) {
  if (kernel == Step::Kernel::transposed) return ir::Regime::transposed;
  const bool of_inputs = kernel == Step::Kernel::inputs || kernel == Step::Kernel::input_tables;
  return of_inputs ? ir::Regime::inputs : ir::Regime::many_queries;
}

Status GpuExecutor::check_positions(const ir::Shape& shape) const {
  const bool computes = kernel_.plan.score || codegen::cuda::has_conditions(kernel_.plan);
  const std::int64_t most = computes ? codegen::cuda::kFarthestPosition : kMost;
  const char* const kernels = computes ? "GPU kernels of patterns with expressions" : "GPU kernels";
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const auto first = shape.offset_of(b);
    if (first > -most && first <= most - shape.n_q) continue;
    return user_error(fmt::format("rows at positions {} to {}: {} count positions up to {}", first,
                                  first + shape.n_q - 1, kernels, most));
  }
  if (shape.n_k > most)
    return user_error(fmt::format("{} keys: {} count positions up to {}", shape.n_k, kernels, most));
  return done;
}

cuda::Grid GpuExecutor::grid_of(const Step& step) const {
  const auto& of = geometry(regime_of(step.kernel));
  if (step.kernel == Step::Kernel::prepass) return {step.blocks, of.prepass_threads, of.prepass_shared};
  const bool has_tiles = step.kernel == Step::Kernel::attend || step.kernel == Step::Kernel::transposed ||
                         step.kernel == Step::Kernel::inputs;
  return {step.blocks, of.threads, has_tiles ? of.shared_bytes(step.args->most_terms) : 0};
}

}  // namespace weft
