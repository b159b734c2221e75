#include "compiler/base/float16.h"
#include "compiler/ir/philox.h"
#include "compiler/ir/steps.h"
#include "runtime/engine/lists.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace weft {

namespace {

constexpr std::int32_t kUnused = std::numeric_limits<std::int32_t>::max();

float element(ir::DType type, const void* data, std::int64_t at) {
  if (type == ir::DType::f32) return static_cast<const float*>(data)[at];
  const auto bits = static_cast<const std::uint16_t*>(data)[at];
  return type == ir::DType::f16 ? half_to_float(bits) : bf16_to_float(bits);
}

/// The best `count` blocks of those that were taken in, in the order of their numbers: by score, its own row's before
/// all others, of equal ones the earlier.
class Best {
 public:
  explicit Best(std::int64_t count) : count_(static_cast<std::size_t>(count)) { found_.reserve(count_); }

  void take_in(float score, std::int64_t block, bool own) {
    const float by = own                 ? std::numeric_limits<float>::infinity()
                     : std::isnan(score) ? -std::numeric_limits<float>::infinity()
                                         : score;
    if (found_.size() == count_) {
      if (!own && !(by > found_.back().first)) return;
      found_.pop_back();
    }
    const auto follows = [](float x, const auto& y) { return x > y.first; };
    const auto at = own ? found_.begin() : std::upper_bound(found_.begin(), found_.end(), by, follows);
    found_.insert(at, {by, static_cast<std::int32_t>(block)});
  }

  void write(std::int32_t* to) {
    std::sort(found_.begin(), found_.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
    for (std::size_t i = 0; i < count_; ++i) to[i] = i < found_.size() ? found_[i].second : kUnused;
  }

 private:
  std::size_t count_;
  std::vector<std::pair<float, std::int32_t>> found_;
};

/// Rows of blocks are scored together, with so many blocks of keys at a time.
constexpr int kRows = ir::kListedRows, kAtOnce = 32;
using Scores = std::array<std::array<float, kAtOnce>, kRows>;

/// Means lie one column behind the other, `apart`; those of the queries one row behind the other.
Scores products(const float* means, std::int64_t apart, const float* queries, std::int64_t columns) {
  Scores out = {};
  for (std::int64_t c = 0; c < columns; ++c, means += apart) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const float query = queries[static_cast<std::int64_t>(r) * columns + c];
      for (std::size_t i = 0; i < kAtOnce; ++i) out[r][i] += query * means[i];
    }
  }
  return out;
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
        shape_(list_shape(plan, list, piece.shape)),
        apart_((shape_.blocks + kAtOnce - 1) / kAtOnce * kAtOnce) {}

  void run(const Workers& workers, int threads) {
    const std::int64_t heads = piece_.heads_of_entry(), first_h = piece_.first_head_of_entry();
    const std::int64_t first_b = piece_.first_entry(), entries = piece_.entries();
    if (list_.pools()) {
      const std::int64_t group = piece_.shape.group(), kv_heads = heads / group;
      means_.resize(static_cast<std::size_t>(piece_.shape.batch * piece_.shape.kv_heads * plan_.bind.d * apart_));
      each(workers, threads, entries * kv_heads * shape_.blocks, [&](std::int64_t i) {
        const std::int64_t block = i % shape_.blocks, head = i / shape_.blocks;
        const std::int64_t b = first_b + head / kv_heads, h = first_h / group + head % kv_heads;
        const std::int64_t begin = block * list_.block, end = std::min(begin + list_.block, args_.n_k);
        const auto row = [&](std::int64_t n) { return key_row(b, n) + h * args_.k.stride_h; };
        mean(begin, end, row, args_.k.data, means_of(b, h) + block, apart_);
      });
    }
    const std::int64_t batches = shape_.batches > 1 ? entries : 1;
    const bool drawn = list_.kind == ir::List::Kind::random;
    const std::int64_t of_unit = drawn ? 1 : kRows, units = (shape_.rows + of_unit - 1) / of_unit;
    each(workers, threads, batches * heads * units, [&](std::int64_t i) {
      const std::int64_t first = i % units * of_unit, head = i / units;
      const std::int64_t b = first_b + head / heads, h = first_h + head % heads, row = shape_.first_row + first;
      drawn ? draw(b, h, row) : choose(b, h, row, std::min(of_unit, shape_.rows - first));
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

  float* means_of(std::int64_t b, std::int64_t kv_head) {
    return means_.data() + (b * piece_.shape.kv_heads + kv_head) * plan_.bind.d * apart_;
  }

  std::int64_t key_row(std::int64_t b, std::int64_t n) const {
    if (args_.pages == nullptr) return b * args_.k.stride_b + n * args_.k.stride_n;
    const std::int64_t page = args_.pages[b * args_.page_stride + n / args_.page_size];
    return page * args_.k.stride_b + n % args_.page_size * args_.k.stride_n;
  }

  /// The mean of rows [begin, end), where `row(n)` is the first element of row n; each column `apart` from the one
  /// before.
  template <typename Row>
  void mean(std::int64_t begin, std::int64_t end, const Row& row, const void* data, float* to,
            std::int64_t apart) const {
    std::vector<double> sums(static_cast<std::size_t>(plan_.bind.d));
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t first = row(n);
      for (std::size_t i = 0; i < sums.size(); ++i)
        sums[i] += element(plan_.bind.dtype, data, first + static_cast<std::int64_t>(i));
    }
    const auto count = static_cast<double>(std::max<std::int64_t>(1, end - begin));
    for (const double sum : sums) {
      *to = static_cast<float>(sum / count);
      to += apart;
    }
  }

  std::int32_t* places(std::int64_t b, std::int64_t h, std::int64_t row) const {
    return to_.data + b * to_.stride_b + h * to_.stride_h + row * to_.stride_row;
  }

  void draw(std::int64_t b, std::int64_t h, std::int64_t row) const {
    const auto keys = ir::sample_keys(list_.count, shape_.blocks, static_cast<std::uint64_t>(list_.seed), h, row);
    std::int32_t* const to = places(b, h, row);
    std::fill(std::copy(keys.begin(), keys.end(), to), to + shape_.count, kUnused);
  }

  std::vector<float> means_of_queries(std::int64_t b, std::int64_t h, std::int64_t first_row, std::int64_t rows) const {
    std::vector<float> out(static_cast<std::size_t>(kRows * plan_.bind.d));
    const std::int64_t first = piece_.shape.offset_of(b);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t begin = std::max<std::int64_t>((first_row + r) * list_.block - first, 0);
      const std::int64_t end = std::min((first_row + r + 1) * list_.block - first, args_.n_q);
      const auto row = [&](std::int64_t n) {
        return b * args_.q.stride_b + n * args_.q.stride_n + h * args_.q.stride_h;
      };
      mean(begin, end, row, args_.q.data, out.data() + r * plan_.bind.d, 1);
    }
    return out;
  }

  /// Of rows with blocks from `first` on.
  Scores given(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t rows, std::int64_t first) const {
    const weft_input& from = args_.inputs[list_.input];
    const auto* const line = static_cast<const float*>(from.data) + b * from.strides[0] + h * from.strides[1];
    const std::int64_t end = std::min(first + kAtOnce, from.extents[3]);
    Scores out = {};
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = std::clamp<std::int64_t>(row + r, 0, from.extents[2] - 1);
      for (std::int64_t i = first; i < end; ++i)
        out[static_cast<std::size_t>(r)][static_cast<std::size_t>(i - first)] =
            line[at * from.strides[2] + i * from.strides[3]];
    }
    return out;
  }

  void choose(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t rows) {
    const auto candidates = [&](std::int64_t r) {
      return list_.causal ? std::clamp<std::int64_t>(row + r + 1, 0, shape_.blocks) : shape_.blocks;
    };
    const float* const means = list_.pools() ? means_of(b, h / piece_.shape.group()) : nullptr;
    const auto queries = list_.pools() ? means_of_queries(b, h, row, rows) : std::vector<float>{};
    std::vector<Best> best(static_cast<std::size_t>(rows), Best(shape_.count));
    for (std::int64_t first = 0; first < candidates(rows - 1); first += kAtOnce) {
      const auto scores = means != nullptr ? products(means + first, apart_, queries.data(), plan_.bind.d)
                                           : given(b, h, row, rows, first);
      for (std::int64_t r = 0; r < rows; ++r) {
        const auto& of_row = scores[static_cast<std::size_t>(r)];
        const std::int64_t end = std::min(first + kAtOnce, candidates(r));
        for (std::int64_t i = first; i < end; ++i)
          best[static_cast<std::size_t>(r)].take_in(of_row[static_cast<std::size_t>(i - first)], i, i == row + r);
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) best[static_cast<std::size_t>(r)].write(places(b, h, row + r));
  }

  const ir::Plan& plan_;
  const ir::List& list_;
  const Piece& piece_;
  const weft_args& args_;
  const weft_list& to_;
  ListShape shape_;
  std::int64_t apart_;        ///< from the means of one column to those of the next
  std::vector<float> means_;  ///< of key blocks: [B, H_kv, d, apart]
};

}  // namespace

void fill_list(const ir::Plan& plan, std::size_t list, const Piece& piece, const Workers& workers, int threads) {
  Filler(plan, plan.lists[list], piece, piece.block.lists[list]).run(workers, threads);
}

}  // namespace weft
