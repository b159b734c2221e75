#include "runtime/engine/gpu_executor.h"

#include "codegen/cuda/conditions.h"
#include "codegen/cuda/intervals.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/key_chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace weft {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

/// What chunks of keys keep is at most this much, or what one head takes: more heads take turns, each enough of them
/// to fill a GPU.
constexpr std::int64_t kChunkMemory = std::int64_t{32} << 20;

/// In groups of those that stand in one tile. The room is made for groups of one: a tile's state is about a fourth of
/// it at most, 128 chunks of 128 rows and 130 numbers, or of 64 and 258.
std::int64_t heads_at_once(std::int64_t bytes_of_head, std::int64_t together = 1) {
  return std::max<std::int64_t>(1, kChunkMemory / bytes_of_head / together) * together;
}

std::int64_t chunk_bytes_of_head(const ir::Plan& plan, std::int64_t n_q, std::int64_t chunks) {
  return n_q * ir::shares_of_tile(plan, chunks) * plan.state_bytes();
}

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

std::size_t GpuExecutor::chunk_bytes(std::int64_t heads, std::int64_t n_q, std::int64_t n_k) const {
  const auto chunks = ir::most_key_chunks(plan_, n_q, n_k);
  if (chunks < 2) return 0;
  const auto of_head = chunk_bytes_of_head(plan_, n_q, chunks);
  return static_cast<std::size_t>(std::min(heads, heads_at_once(of_head)) * of_head);
}

std::size_t GpuExecutor::chunk_bytes(const Launch& launch) const {
  const auto& shape = launch.shape;
  if (launch.sequences.empty()) return chunk_bytes(shape.batch * shape.heads, shape.n_q, shape.n_k);
  std::size_t most = 0;
  for (const auto& s : launch.sequences) most = std::max(most, chunk_bytes(shape.heads, s.n_q, s.n_k));
  return most;
}

std::size_t GpuExecutor::most_chunk_bytes(const ir::Shape& shape) const {
  std::size_t most = 0;
  for (auto n_q : ir::rows_with_most_chunks(plan_)) {
    most = std::max(most, chunk_bytes(shape.batch * shape.heads, std::min(n_q, shape.n_q), shape.n_k));
  }
  return most;
}

std::vector<std::int64_t> GpuExecutor::cut_keys(Piece& piece) const {
  weft_args& block = piece.block;
  const auto& shape = piece.shape;
  block.chunks = 1;
  if (ir::most_key_chunks(plan_, shape.n_q, shape.n_k) < 2) return {};
  std::vector<std::int64_t> of_entry;
  const auto entries = shape.offset.size() > 1 ? shape.batch : 1;
  for (std::int64_t b = 0; b < entries; ++b) {
    const auto chunks = ir::key_chunks(plan_, shape, b);
    block.chunks = std::max(block.chunks, chunks.count);
    block.chunk_first = chunks.first;
    block.chunk_keys = chunks.keys;
    if (entries > 1) of_entry.insert(of_entry.end(), {chunks.first, chunks.keys});
  }
  if (block.chunks < 2) of_entry.clear();
  return of_entry;
}

Status GpuExecutor::each_step(std::size_t phase, const HeadTables& tables, Piece& piece,
                              const std::function<Status(const Step&)>& run) const {
  weft_args& block = piece.block;
  block.phase = static_cast<std::int64_t>(phase);
  number_tiles(plan_, tables, phase, piece.shape, block);
  const std::int64_t tiles = block.tiles_per_head, rows = piece.shape.rows_computed();
  const std::int64_t chunks = block.chunks, shares = ir::shares_of_tile(plan_, chunks);
  const auto behind = piece.first_head + piece.heads;
  // Rows are counted where chunks of them are merged.
  std::int64_t most = 0;
  if (__builtin_mul_overflow(behind, std::max(tiles * shares, chunks > 1 ? rows : 0), &most) || most > kMost) {
    return user_error(fmt::format("batch {}, {} heads and {} row tiles a head are more than the {} tiles of one launch",
                                  piece.shape.batch, piece.shape.heads, tiles, kMost));
  }
  const auto launch = [&](std::int64_t first, std::int64_t heads) {
    const auto together = block.heads_per_tile;
    block.tile_begin = first / together * tiles;
    block.tile_end = (first + heads) / together * tiles;
    return run({.kernel = Step::Kernel::attend, .blocks = heads / together * tiles * shares, .args = &block});
  };
  if (chunks == 1) return launch(piece.first_head, piece.heads);
  const auto of_head = chunk_bytes_of_head(plan_, rows, chunks);
  const auto at_once = heads_at_once(chunk_bytes_of_head(plan_, piece.shape.n_q, chunks), block.heads_per_tile);
  auto* const room = reinterpret_cast<std::byte*>(block.carry);
  for (auto first = piece.first_head; first < behind; first += at_once) {
    const auto heads = std::min(at_once, behind - first);
    // Kernels count heads from the batch's first.
    block.carry =
        reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(room) - static_cast<std::uintptr_t>(first * of_head));
    WEFT_CHECK(launch(first, heads));
    block.tile_begin = first * rows;
    block.tile_end = (first + heads) * rows;
    const std::int64_t rows_of_block = geometry_.threads / 32;
    WEFT_CHECK(run(
        {.kernel = Step::Kernel::merge, .blocks = (heads * rows + rows_of_block - 1) / rows_of_block, .args = &block}));
  }
  block.carry = reinterpret_cast<float*>(room);
  return done;
}

}  // namespace weft
