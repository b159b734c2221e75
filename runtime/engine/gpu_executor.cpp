#include "runtime/engine/gpu_executor.h"

#include "codegen/cuda/conditions.h"
#include "codegen/cuda/intervals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace weft {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

}  // namespace

GpuExecutor::GpuExecutor(const Compilation& kernel) : Executor(kernel) {
  for (const auto regime : ir::regimes_of(kernel.plan))
    shared_[static_cast<std::size_t>(regime)] = codegen::cuda::shared_memory(kernel.plan, regime);
}

Status GpuExecutor::check_shape(const ir::Shape& shape, bool sizes_in_memory) const {
  if (sizes_in_memory && !kernel_.plan.may_read_sizes())
    return user_error(fmt::format(
        "'{}' passes over blocks of keys by lists, which are made for sizes that the host knows, not those of "
        "sizes_at: give cu_q and cu_k, or kv_lengths and offset, in the host's memory",
        kernel_.plan.name));
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

bool GpuExecutor::has_tiles(ir::Step::Kernel kernel) {
  using Does = ir::Step::Kernel;
  return kernel == Does::attend || kernel == Does::transposed || kernel == Does::inputs;
}

cuda::Grid GpuExecutor::grid_of(const Turn& turn) const {
  const ir::Step& step = turn.step;
  const auto& shared = shared_memory(step.text);
  return {turn.blocks, step.threads,
          has_tiles(step.kernel)                     ? shared.with_terms(turn.args->most_terms)
          : step.kernel == ir::Step::Kernel::prepass ? shared.prepass
                                                     : 0};
}

}  // namespace weft
