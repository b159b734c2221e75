#pragma once

#include <array>
#include <cstdint>
#include <vector>

/// Plain dense tensors in f64 for the interpreters, and the shapes of one run.
namespace weft::ir {

/// Row-major values with explicit extents; the last axis is contiguous.
struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<double> data;

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

/// Run-time sizes. `offset` has one entry, or one per batch entry; empty: n_k - n_q.
struct Shape {
  std::int64_t batch = 1, n_q = 0, n_k = 0, heads = 1, kv_heads = 1, d = 0, d_v = 0;
  std::vector<std::int64_t> offset = {};
  std::uint64_t dropout_seed = 0;
  std::int64_t offset_of(std::int64_t b) const {
    if (offset.empty()) return n_k - n_q;
    return offset.size() == 1 ? offset[0] : offset[static_cast<std::size_t>(b)];
  }
};

/// What an interpreter returns. `lse` is [B, H, n_q]; `branch_lse` [branches, B, H, n_q].
struct Outcome {
  Tensor o;                  ///< [B, n_q, H, d_v]
  Tensor lse;                ///< of joint and union; empty for sum and mean
  Tensor branch_lse;         ///< always
  double max_abs_score = 0;  ///< over kept pairs: S of the error bounds
};

}  // namespace weft::ir
