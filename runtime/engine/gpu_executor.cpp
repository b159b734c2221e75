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
  if (step.kernel == Step::Kernel::prepass) return {step.blocks, geometry_.prepass_threads, geometry_.prepass_shared};
  const bool merges = step.kernel == Step::Kernel::merge;
  return {step.blocks, geometry_.threads, merges ? 0 : geometry_.shared_bytes(step.args->most_terms)};
}

}  // namespace weft
