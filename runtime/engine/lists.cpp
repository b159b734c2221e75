#include "runtime/engine/lists.h"

#include "codegen/cuda/lists.h"
#include "compiler/base/float16.h"
#include "compiler/ir/philox.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

namespace weft {

namespace {

constexpr std::int32_t kUnused = std::numeric_limits<std::int32_t>::max();

float element(const TensorView& view, const std::byte* row, std::int64_t i) {
  const std::byte* at = row + i * static_cast<std::int64_t>(size_of(view.dtype));
  if (view.dtype == DType::f32) return *reinterpret_cast<const float*>(at);
  const auto bits = *reinterpret_cast<const std::uint16_t*>(at);
  return view.dtype == DType::f16 ? half_to_float(bits) : bf16_to_float(bits);
}

/// Mean over tokens [begin, end) of the view, where they exist.
std::vector<double> mean(const TensorView& view, std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t end) {
  begin = std::max<std::int64_t>(begin, 0);
  end = std::min(end, view.extent[1]);
  std::vector<double> out(static_cast<std::size_t>(view.extent[3]));
  const auto size = static_cast<std::int64_t>(size_of(view.dtype));
  const auto* base = static_cast<const std::byte*>(view.data);
  for (std::int64_t n = begin; n < end; ++n) {
    const std::byte* row = base + (b * view.stride[0] + n * view.stride[1] + h * view.stride[2]) * size;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += element(view, row, static_cast<std::int64_t>(i));
  }
  for (auto& value : out) value /= static_cast<double>(std::max<std::int64_t>(1, end - begin));
  return out;
}

/// One list being filled.
class Filler {
 public:
  Filler(const ir::List& list, const Launch& launch, const RunArgs& args, const weft_list& to)
      : list_(list), launch_(launch), args_(args), to_(to), shape_(list_shape(list, launch.shape)) {}

  void run(const Workers& workers, int threads) {
    if (list_.kind == ir::List::Kind::top && list_.input < 0) {
      means_.resize(static_cast<std::size_t>(launch_.shape.batch * launch_.shape.kv_heads * shape_.blocks));
      each(workers, threads, static_cast<std::int64_t>(means_.size()), [&](std::int64_t i) {
        const std::int64_t block = i % shape_.blocks, rest = i / shape_.blocks;
        means_[static_cast<std::size_t>(i)] =
            mean(args_.k, rest / launch_.shape.kv_heads, rest % launch_.shape.kv_heads, block * list_.block,
                 (block + 1) * list_.block);
      });
    }
    each(workers, threads, shape_.batches * launch_.shape.heads * shape_.rows, [&](std::int64_t i) {
      const std::int64_t row = i % shape_.rows, rest = i / shape_.rows;
      choose(rest / launch_.shape.heads, rest % launch_.shape.heads, shape_.first_row + row);
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
      const TensorView& given = launch_.inputs[static_cast<std::size_t>(list_.input)];
      const std::int64_t at = std::clamp<std::int64_t>(row, 0, given.extent[2] - 1);
      const auto* line =
          static_cast<const float*>(given.data) + b * given.stride[0] + h * given.stride[1] + at * given.stride[2];
      for (std::int64_t i = 0; i < count; ++i) out[static_cast<std::size_t>(i)] = line[i * given.stride[3]];
      return out;
    }
    const std::int64_t first = launch_.shape.offset_of(b);
    const auto query = mean(args_.q, b, h, row * list_.block - first, (row + 1) * list_.block - first);
    const std::int64_t kv = b * launch_.shape.kv_heads + h / (launch_.shape.heads / launch_.shape.kv_heads);
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

  const ir::List& list_;
  const Launch& launch_;
  const RunArgs& args_;
  const weft_list& to_;
  ListShape shape_;
  std::vector<std::vector<double>> means_;  ///< of key blocks
};

}  // namespace

ListShape list_shape(const ir::List& list, const ir::Shape& shape) {
  ListShape out;
  std::int64_t first = shape.offset_of(0), last = first + shape.n_q - 1;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    first = std::min(first, shape.offset_of(b));
    last = std::max(last, shape.offset_of(b) + shape.n_q - 1);
  }
  out.batches = list.kind == ir::List::Kind::random ? 1 : shape.batch;
  out.first_row = ir::floor_div(first, list.block);
  // As many as rows can meet wherever they begin: what a workspace is asked for before offsets are known.
  out.rows = std::max(ir::floor_div(last, list.block) - out.first_row, (shape.n_q + list.block - 2) / list.block) + 1;
  out.blocks = (shape.n_k + list.block - 1) / list.block;
  out.count = std::min(list.count, out.blocks);
  return out;
}

Result<std::size_t> list_bytes(const ir::Plan& plan, const ir::Shape& shape) {
  std::int64_t elements = 0;
  for (const auto& list : plan.lists) {
    const ListShape s = list_shape(list, shape);
    std::int64_t product = s.batches * shape.heads;
    if (__builtin_mul_overflow(product, s.rows, &product) || __builtin_mul_overflow(product, s.count, &product) ||
        __builtin_add_overflow(elements, product, &elements) || elements > (std::int64_t{1} << 40)) {
      return user_error("the lists of chosen keys are larger than memory");
    }
  }
  return static_cast<std::size_t>(elements) * sizeof(std::int32_t);
}

void place_lists(const ir::Plan& plan, const ir::Shape& shape, std::int32_t* memory, weft_args& block) {
  for (std::size_t i = 0; i < plan.lists.size(); ++i) {
    const ListShape s = list_shape(plan.lists[i], shape);
    weft_list& to = block.lists[i];
    to.count = to.stride_row = s.count;
    to.stride_h = s.rows * s.count;
    to.stride_b = s.batches > 1 ? shape.heads * to.stride_h : 0;
    // Kernels index by the number of the block of rows.
    to.data = memory - s.first_row * to.stride_row;
    memory += s.elements(shape.heads);
  }
}

std::size_t list_scratch_bytes(const ir::Plan& plan, const ir::Shape& shape) {
  std::int64_t most = 0;
  for (const auto& list : plan.lists) {
    if (list.kind != ir::List::Kind::top) continue;
    const ListShape s = list_shape(list, shape);
    most = std::max(most, shape.batch * shape.kv_heads * s.blocks * plan.bind.d + s.elements(shape.heads));
  }
  return static_cast<std::size_t>(most) * sizeof(float);
}

Result<std::vector<ListLaunch>> list_launches(const ir::Plan& plan, const ir::Shape& shape) {
  std::vector<ListLaunch> out;
  for (std::size_t i = 0; i < plan.lists.size(); ++i) {
    const ListShape s = list_shape(plan.lists[i], shape);
    const auto phase = static_cast<std::int64_t>(2 * i);
    if (codegen::cuda::pools(plan.lists[i])) out.push_back({phase, shape.batch * shape.kv_heads * s.blocks, 0, 0});
    out.push_back({phase + 1, s.batches * shape.heads * s.rows, s.rows, s.first_row});
  }
  for (const auto& launch : out) {
    if (launch.blocks > std::numeric_limits<std::int32_t>::max()) {
      return user_error(
          fmt::format("{} rows of blocks to choose keys for are more than one launch takes", launch.blocks));
    }
  }
  return out;
}

void fill_lists(const ir::Plan& plan, const Launch& launch, const RunArgs& args, const weft_args& block,
                const Workers& workers, int threads) {
  for (std::size_t i = 0; i < plan.lists.size(); ++i) {
    Filler(plan.lists[i], launch, args, block.lists[i]).run(workers, threads);
  }
}

}  // namespace weft
