#pragma once

#include "compiler/ir/pattern_interpreter.h"

/// What gradients of a pattern mean, in f64: each step of the interpreter's forward followed backwards, and scores
/// evaluated on numbers that know their slopes. No formula of a kernel's backward stands here, nor the symbolic
/// derivatives that kernels are made of (derivative.h): both are tested against this.
namespace weft::ir {

/// Of sum(dO * O) + sum(dLSE * LSE).
struct Gradients {
  Tensor dq;  ///< [B, n_q, H, d]
  Tensor dk;  ///< [B, n_k, H_kv, d], summed over the query heads that share a key/value head
  Tensor dv;  ///< [B, n_k, H_kv, d_v], the same
  /// In the order of `Pattern::inputs`: of float inputs the gradient, in the input's shape, 0 where neither scale nor
  /// score reads it; of others an empty tensor.
  std::vector<Tensor> inputs;
};

/// Rows whose LSE is -inf give no gradient, whatever dO and dLSE hold there, and nor does a pair whose score is -inf.
/// `d_o`: [B, n_q, H, d_v]. `d_lse`: of the LSE that the combine mode has, [B, H, n_q] or, with `sum` and `mean`,
/// [branches, B, H, n_q]; null: 0. `chosen`: as of interpret_rows. `rows`: all others give
/// nothing; null: those of the shape's slice, or all. User errors: those of interpret(), and a dO or dLSE of another
/// shape. Cost: a few times that of interpret(), and once more for each element of an input that a score reads.
Result<Gradients> interpret_gradients(const Pattern& pattern, const Shape& shape, const Tensor& q, const Tensor& k,
                                      const Tensor& v, const InputValues& inputs, const Tensor& d_o,
                                      const Tensor* d_lse = nullptr, const std::vector<ChosenKeys>* chosen = nullptr,
                                      const std::vector<std::int64_t>* rows = nullptr);

}  // namespace weft::ir
