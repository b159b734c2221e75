#include "runtime/engine/gpu_executor.h"

#include "codegen/cuda/conditions.h"
#include "codegen/cuda/intervals.h"

#include <fmt/format.h>

#include <limits>

namespace weft {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

}  // namespace

Status GpuExecutor::check_positions(const ir::Shape& shape) const {
  const bool computes = plan_.score || codegen::cuda::has_conditions(plan_);
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

Result<std::int64_t> GpuExecutor::open_phase(std::size_t phase, const HeadTables& tables, Piece& piece) const {
  weft_args& block = piece.block;
  block.phase = static_cast<std::int64_t>(phase);
  block.tiles_per_head = tiles_per_head(plan_.phases[phase], tables.tables.phases[phase], piece.shape);
  if (__builtin_mul_overflow(piece.first_head + piece.heads, block.tiles_per_head, &block.tile_end) ||
      block.tile_end > kMost) {
    return user_error(fmt::format("batch {}, {} heads and {} row tiles a head are more than the {} tiles of one launch",
                                  piece.shape.batch, piece.shape.heads, block.tiles_per_head, kMost));
  }
  block.tile_begin = piece.first_head * block.tiles_per_head;
  return block.tile_end - block.tile_begin;
}

}  // namespace weft
