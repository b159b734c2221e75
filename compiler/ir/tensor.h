#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// Plain dense tensors in f64 for the interpreters, and the shapes of one run.
namespace weft::ir {

/// Row-major values with explicit extents; the last axis is contiguous.
struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<double> data;
  /// What stands in for `data` where the values of an input are made up one by one, by their number: a picture of
  /// millions of tokens looks at few of them. Sets and conditions on pairs read such inputs; nothing else does.
  std::function<double(std::int64_t)> made = nullptr;

  Tensor() = default;
  explicit Tensor(std::vector<std::int64_t> extents, double fill = 0)
      : shape(std::move(extents)), data(static_cast<std::size_t>(count(shape)), fill) {}
  static std::int64_t count(const std::vector<std::int64_t>& extents) {
    std::int64_t n = 1;
    for (auto e : extents) n *= e;
    return n;
  }
  double& at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return data[static_cast<std::size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d)];
  }
  double at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
    return data[static_cast<std::size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d)];
  }
};

/// Run-time sizes. `offset` has one entry, or one per batch entry; empty: n_k - n_q. A launch may compute a slice of
/// the rows, of the heads, or of both: `n_q`, `heads` and `kv_heads` count all of them, and all sizes of inputs,
/// positions and numbers of heads go by them.
struct Shape {
  std::int64_t batch = 1, n_q = 0, n_k = 0, heads = 1, kv_heads = 1, d = 0, d_v = 0;
  std::vector<std::int64_t> offset = {};
  std::uint64_t dropout_seed = 0;
  std::int64_t row_begin = 0;  ///< of the slice …
  std::int64_t rows = 0;       ///< … and how many rows it has; 0: all
  bool is_slice() const { return rows > 0; }
  std::int64_t rows_computed() const { return is_slice() ? rows : n_q; }
  std::int64_t row_end() const { return is_slice() ? row_begin + rows : n_q; }
  std::int64_t head_begin = 0;  ///< of the slice of the heads, whole groups that share K and V …
  std::int64_t head_count = 0;  ///< … and how many it has; 0: all
  std::int64_t group() const { return heads / kv_heads; }
  bool is_head_slice() const { return head_count > 0; }
  std::int64_t heads_computed() const { return is_head_slice() ? head_count : heads; }
  std::int64_t head_end() const { return head_begin + heads_computed(); }
  std::int64_t kv_heads_computed() const { return heads_computed() / group(); }
  std::int64_t offset_of(std::int64_t b) const {
    if (offset.empty()) return n_k - n_q;
    return offset.size() == 1 ? offset[0] : offset[static_cast<std::size_t>(b)];
  }
};

/// Reads of inputs and of lists beyond their ends, which take the nearest element.
struct Clamped {
  std::int64_t count = 0;
  std::string first = {};  ///< in words
};

/// What an interpreter returns. `lse` is [B, H, n_q]; `branch_lse` [branches, B, H, n_q].
struct Outcome {
  Tensor o;                  ///< [B, n_q, H, d_v]
  Tensor lse;                ///< of joint and union; empty for sum and mean
  Tensor branch_lse;         ///< always
  Tensor score_sizes = {};   ///< [B, H, n_q], of the pattern's interpreter: S of the error bounds, of each row
  double max_abs_score = 0;  ///< … and of all
  double largest_sum = 1;    ///< of a row's sigmoids, where it is more
  Clamped clamped = {};
};

}  // namespace weft::ir
