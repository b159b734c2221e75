#include "runtime/engine/gpu_executor.h"

#include <fmt/format.h>

#include <limits>

namespace weft {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

}  // namespace

Status GpuExecutor::check_positions(const ir::Shape& shape) const {
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const auto first = shape.offset_of(b);
    if (first > -kMost && first <= kMost - shape.n_q) continue;
    return user_error(fmt::format("rows at positions {} to {}: GPU kernels count positions up to {}", first,
                                  first + shape.n_q - 1, kMost));
  }
  return done;
}

Status GpuExecutor::open_phase(std::size_t phase, const HeadTables& tables, const ir::Shape& shape,
                               weft_args& block) const {
  block.phase = static_cast<std::int64_t>(phase);
  block.tiles_per_head = tiles_per_head(plan_.phases[phase], tables.tables.phases[phase], shape);
  if (__builtin_mul_overflow(shape.batch * shape.heads, block.tiles_per_head, &block.tile_end) ||
      block.tile_end > kMost) {
    return user_error(fmt::format("batch {}, {} heads and {} row tiles a head are more than the {} tiles of one launch",
                                  shape.batch, shape.heads, block.tiles_per_head, kMost));
  }
  return done;
}

}  // namespace weft
