#include "runtime/engine/lists.h"

#include "compiler/base/float16.h"
#include "compiler/ir/philox.h"
#include "compiler/ir/predicates.h"
#include "compiler/ir/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

namespace weft {

namespace {

constexpr std::int32_t kUnused = std::numeric_limits<std::int32_t>::max();

float element(ir::DType type, const void* data, std::int64_t at) {
  if (type == ir::DType::f32) return static_cast<const float*>(data)[at];
  const auto bits = static_cast<const std::uint16_t*>(data)[at];
  return type == ir::DType::f16 ? half_to_float(bits) : bf16_to_float(bits);
}

/// One list of one piece being filled.
class Filler {
 public:
  Filler(const ir::Plan& plan, const ir::List& list, const Piece& piece, const weft_list& to)
      : plan_(plan),
        list_(list),
        piece_(piece),
        args_(piece.block),
        to_(to),
        shape_(list_shape(plan, list, piece.shape)) {}

  void run(const Workers& workers, int threads) {
    const std::int64_t heads = piece_.heads_of_entry(), first_h = piece_.first_head_of_entry();
    const std::int64_t first_b = piece_.first_entry(), entries = piece_.entries();
    if (list_.pools()) {
      const std::int64_t group = piece_.shape.group(), kv_heads = heads / group;
      means_.resize(static_cast<std::size_t>(piece_.shape.batch * piece_.shape.kv_heads * shape_.blocks));
      each(workers, threads, entries * kv_heads * shape_.blocks, [&](std::int64_t i) {
        const std::int64_t block = i % shape_.blocks, head = i / shape_.blocks;
        const std::int64_t b = first_b + head / kv_heads, h = first_h / group + head % kv_heads;
        means_[static_cast<std::size_t>((b * piece_.shape.kv_heads + h) * shape_.blocks + block)] = mean(
            block * list_.block, std::min((block + 1) * list_.block, args_.n_k),
            [&](std::int64_t n) { return key_row(b, n) + h * args_.k.stride_h; }, args_.k.data);
      });
    }
    const std::int64_t batches = shape_.batches > 1 ? entries : 1;
    each(workers, threads, batches * heads * shape_.rows, [&](std::int64_t i) {
      const std::int64_t row = i % shape_.rows, head = i / shape_.rows;
      choose(first_b + head / heads, first_h + head % heads, shape_.first_row + row);
    });
  }

 private:
  template <typename Work>
  static void each(const Workers& workers, int threads, std::int64_t count, const Work& work) {
    std::atomic<std::int64_t> next{0};
    workers.run(static_cast<int>(std::min<std::int64_t>(threads, count)), [&](int) {
      for (std::int64_t i = next++; i < count; i = next++) work(i);
    });
  }

  std::int64_t key_row(std::int64_t b, std::int64_t n) const {
    if (args_.pages == nullptr) return b * args_.k.stride_b + n * args_.k.stride_n;
    const std::int64_t page = args_.pages[b * args_.page_stride + n / args_.page_size];
    return page * args_.k.stride_b + n % args_.page_size * args_.k.stride_n;
  }

  /// The mean of rows [begin, end), where `row(n)` is the first element of row n.
  template <typename Row>
  std::vector<double> mean(std::int64_t begin, std::int64_t end, const Row& row, const void* data) const {
    std::vector<double> out(static_cast<std::size_t>(plan_.bind.d));
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t first = row(n);
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] += element(plan_.bind.dtype, data, first + static_cast<std::int64_t>(i));
      }
    }
    for (auto& value : out) value /= static_cast<double>(std::max<std::int64_t>(1, end - begin));
    return out;
  }

  void choose(std::int64_t b, std::int64_t h, std::int64_t row) const {
    const auto keys = list_.kind == ir::List::Kind::random
                          ? ir::sample_keys(list_.count, shape_.blocks, static_cast<std::uint64_t>(list_.seed), h, row)
                          : best(b, h, row);
    std::int32_t* at = to_.data + b * to_.stride_b + h * to_.stride_h + row * to_.stride_row;
    for (std::int64_t i = 0; i < shape_.count; ++i) {
      at[i] = i < static_cast<std::int64_t>(keys.size()) ? static_cast<std::int32_t>(keys[static_cast<std::size_t>(i)])
                                                         : kUnused;
    }
  }

  std::vector<double> scores(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t count) const {
    std::vector<double> out(static_cast<std::size_t>(count));
    if (list_.input >= 0) {
      const weft_input& given = args_.inputs[list_.input];
      const std::int64_t at = std::clamp<std::int64_t>(row, 0, given.extents[2] - 1);
      const auto* line =
          static_cast<const float*>(given.data) + b * given.strides[0] + h * given.strides[1] + at * given.strides[2];
      for (std::int64_t i = 0; i < count; ++i) out[static_cast<std::size_t>(i)] = line[i * given.strides[3]];
      return out;
    }
    const std::int64_t first = piece_.shape.offset_of(b);
    const auto query = mean(
        std::max<std::int64_t>(row * list_.block - first, 0), std::min((row + 1) * list_.block - first, args_.n_q),
        [&](std::int64_t n) { return b * args_.q.stride_b + n * args_.q.stride_n + h * args_.q.stride_h; },
        args_.q.data);
    const std::int64_t kv = b * piece_.shape.kv_heads + h / piece_.shape.group();
    for (std::int64_t i = 0; i < count; ++i) {
      const auto& key = means_[static_cast<std::size_t>(kv * shape_.blocks + i)];
      out[static_cast<std::size_t>(i)] = std::inner_product(query.begin(), query.end(), key.begin(), 0.0);
    }
    return out;
  }

  /// The diagonal first, then by score; equal scores by smaller number.
  std::vector<std::int64_t> best(std::int64_t b, std::int64_t h, std::int64_t row) const {
    const std::int64_t candidates = list_.causal ? std::clamp<std::int64_t>(row + 1, 0, shape_.blocks) : shape_.blocks;
    auto score = scores(b, h, row, candidates);
    for (auto& s : score) s = std::isnan(s) ? -std::numeric_limits<double>::infinity() : s;
    std::vector<std::int64_t> order(score.size());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    const auto count = std::min(static_cast<std::ptrdiff_t>(order.size()), static_cast<std::ptrdiff_t>(shape_.count));
    std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::int64_t x, std::int64_t y) {
      if (x == row || y == row) return x == row && y != row;
      const double left = score[static_cast<std::size_t>(x)], right = score[static_cast<std::size_t>(y)];
      return left != right ? left > right : x < y;
    });
    order.resize(static_cast<std::size_t>(count));
    std::sort(order.begin(), order.end());
    return order;
  }

  const ir::Plan& plan_;
  const ir::List& list_;
  const Piece& piece_;
  const weft_args& args_;
  const weft_list& to_;
  ListShape shape_;
  std::vector<std::vector<double>> means_;  ///< of key blocks
};

}  // namespace

namespace {

/// Of a block of keys: who chose it takes no more than 8 lists of 16 places would, however many rows there are.
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
  const ListShape s = list_shape(plan, plan.lists[static_cast<std::size_t>(step.number)], piece.shape);
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

void fill_list(const ir::Plan& plan, std::size_t list, const Piece& piece, const Workers& workers, int threads) {
  Filler(plan, plan.lists[list], piece, piece.block.lists[list]).run(workers, threads);
}

}  // namespace weft
