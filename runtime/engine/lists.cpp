#include "runtime/engine/lists.h"

#include "compiler/ir/predicates.h"
#include "compiler/ir/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace weft {

namespace {

/// So many words say of a block of keys who chose it, however many rows there are.
constexpr std::int64_t kWordsOfChoosers = 32, kBits = 32;

/// Blocks of rows that positions of the launch lie in.
void count_rows(const ir::List& list, const ir::Shape& shape, ListShape& out) {
  std::int64_t first = shape.offset_of(0), last = first + shape.n_q - 1;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    first = std::min(first, shape.offset_of(b));
    last = std::max(last, shape.offset_of(b) + shape.n_q - 1);
  }
  out.first_row = ir::floor_div(first, list.block);
  out.rows = ir::floor_div(last, list.block) - out.first_row + 1;
  out.most_rows = std::max(out.rows, (shape.n_q + list.block - 2) / list.block + 1);
}

}  // namespace

ListShape chosen_shape(const ir::List& list, const ir::Shape& shape) {
  ListShape out;
  count_rows(list, shape, out);
  out.batches = list.kind == ir::List::Kind::random ? 1 : shape.batch;
  out.heads = shape.heads;
  out.blocks = (shape.n_k + list.block - 1) / list.block;
  out.count = std::min(list.count, out.blocks);
  const bool scores = list.kind == ir::List::Kind::top;
  out.units = scores ? (out.rows + ir::kListedRows - 1) / ir::kListedRows : out.rows;
  return out;
}

namespace {

ListShape choosers_shape(ListShape chosen) {
  ListShape out = chosen;
  out.rows_of_bit = 1;
  while (out.rows_of_bit * kBits * kWordsOfChoosers < chosen.most_rows) out.rows_of_bit *= 2;
  const std::int64_t of_word = kBits * out.rows_of_bit;
  out.first_row = ir::floor_div(chosen.first_row, of_word);
  out.rows = ir::floor_div(chosen.first_row + chosen.rows - 1, of_word) - out.first_row + 1;
  out.most_rows = std::max(out.rows, (chosen.most_rows + of_word - 2) / of_word + 1);
  out.count = out.blocks;
  out.units = out.rows;
  return out;
}

}  // namespace

ListShape list_shape(const ir::Plan& plan, const ir::List& list, const ir::Shape& shape) {
  if (list.chooses()) return chosen_shape(list, shape);
  if (list.kind == ir::List::Kind::choosers) {
    const ir::Expr& holds = *plan.predicates[static_cast<std::size_t>(list.predicate)].holds;
    return choosers_shape(chosen_shape(plan.lists[static_cast<std::size_t>(holds.input)], shape));
  }
  ListShape out;
  out.blocks = (shape.n_k + list.block - 1) / list.block;
  out.batches = ir::summary_reads(plan, list, ir::Variable::b) ? shape.batch : 1;
  out.heads = ir::summary_reads(plan, list, ir::Variable::h) ? shape.heads : 1;
  if (list.kind == ir::List::Kind::meets) {
    count_rows(list, shape, out);
    out.count = out.blocks;
    out.units = out.rows;
    return out;
  }
  out.rows = 1;
  out.units = (out.blocks + list.block - 1) / list.block;
  out.count = 2 * (out.blocks + out.units);
  return out;
}

Result<std::size_t> list_bytes(const ir::Plan& plan, const ir::Shape& shape) {
  std::int64_t elements = 0;
  for (const auto& list : plan.lists) {
    const ListShape s = list_shape(plan, list, shape);
    std::int64_t product = s.batches * s.heads;
    if (__builtin_mul_overflow(product, s.most_rows, &product) || __builtin_mul_overflow(product, s.count, &product) ||
        __builtin_add_overflow(elements, product, &elements) || elements > (std::int64_t{1} << 40)) {
      return user_error("the lists of chosen keys are larger than memory");
    }
  }
  return static_cast<std::size_t>(elements) * sizeof(std::int32_t);
}

void place_lists(const ir::Plan& plan, const ir::Shape& shape, std::int32_t* memory, weft_args& block) {
  for (std::size_t i = 0; i < plan.lists.size(); ++i) {
    const ListShape s = list_shape(plan, plan.lists[i], shape);
    weft_list& to = block.lists[i];
    to.stride_row = s.count;
    to.count = s.rows_of_bit > 0 ? s.rows_of_bit : s.count;
    to.first_row = s.first_row;
    to.rows = s.rows;
    to.stride_h = s.heads > 1 ? s.rows * s.count : 0;
    to.stride_b = s.batches > 1 ? s.heads * s.rows * s.count : 0;
    // Kernels index by the number of the block of rows.
    to.data = memory - s.first_row * to.stride_row;
    memory += s.elements();
  }
}

std::size_t list_scratch_bytes(const ir::Plan& plan, const ir::Shape& shape) {
  std::int64_t most = 0;
  for (const auto& list : plan.lists) {
    if (list.kind != ir::List::Kind::top) continue;
    const ListShape s = list_shape(plan, list, shape);
    most = std::max(most, shape.batch * shape.kv_heads * s.blocks * plan.bind.d + s.most_elements());
  }
  return static_cast<std::size_t>(most) * sizeof(float);
}

Status run_list(const ir::Plan& plan, const ir::Step& step, const Piece& piece, void* scratch, const RunTurn& run) {
  // Nobody asks for them, and of rows that no sequence has there may be more than the lists have room for.
  if (piece.shape.n_q == 0 || piece.shape.n_k == 0) return done;
  const bool pools = step.part == ir::Step::Part::pool;
  const ir::List& list = plan.lists[static_cast<std::size_t>(step.number)];
  // Walks over fewer queries ask for all of them at once, and look nobody up: pass_over() in
  // codegen/cuda/device/skips.cuh.
  if (list.kind == ir::List::Kind::choosers &&
      piece.shape.n_q <= (plan.transposed->choices.threads - 1) * ir::kSummaryBlock)
    return done;
  const ListShape s = list_shape(plan, list, piece.shape);
  const std::int64_t first_b = piece.first_entry(), entries = piece.entries(), group = piece.shape.group();
  const std::int64_t first_h = piece.first_head_of_entry(), heads = piece.heads_of_entry();
  const bool shared = s.batches == 1, by_head = s.heads > 1;
  weft_args block = piece.block;
  block.scratch = scratch;
  block.phase = 2 * step.number + (pools ? 0 : 1);
  if (pools) {
    block.tile_end = (first_b * piece.shape.kv_heads + first_h / group) * s.blocks;
  } else {
    block.tiles_per_head = s.units;
    block.tile_begin = s.first_row;
    block.tile_end = ((shared ? 0 : first_b) * s.heads + (by_head ? first_h : 0)) * s.units;
  }
  const auto blocks = step.grid.blocks({.kv_heads = entries * heads / group,
                                        .key_blocks = s.blocks,
                                        .list_heads = (shared ? 1 : entries) * (by_head ? heads : 1),
                                        .list_units = s.units});
  const bool on_gpu = plan.choices.kernel_class != ir::KernelClass::vector;
  if (on_gpu && block.tile_end + blocks > std::numeric_limits<std::int32_t>::max()) {
    return user_error(fmt::format("{} rows of blocks to choose keys for are more than one launch takes", blocks));
  }
  return blocks == 0 ? Status(done) : run({.step = step, .blocks = blocks, .args = &block, .piece = &piece});
}

}  // namespace weft
