#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/tensor.h"

/// The meaning of a pattern, evaluated in f64 straight from semantics.md. Knows nothing of plans;
/// every other way of computing a pattern is tested against this one.
namespace weft::ir {

/// Values of the inputs, in the order of `Pattern::inputs`, as f64 (integers are exact).
using InputValues = std::vector<Tensor>;

/// Do sizes and inputs fit the pattern? Everything a launch must refuse: extents of inputs, head
/// ranges beyond the heads, neighborhoods larger than the tokens, negative positions used as indices.
Status check_shapes(const Pattern& pattern, const Shape& shape, const InputValues& inputs);

/// Evaluates `m` and `s` for pairs of one pattern at one set of sizes, which check_shapes must have
/// accepted. Keeps references to inputs, q and k (these two are needed by pooled `top` only). Keys
/// drawn for a row are remembered: let `k` vary fastest, and use one evaluator a thread.
class PairEvaluator {
 public:
  PairEvaluator(const Pattern& pattern, const Shape& shape, const InputValues& inputs, const Tensor* q = nullptr,
                const Tensor* k = nullptr);
  ~PairEvaluator();
  PairEvaluator(const PairEvaluator&) = delete;
  PairEvaluator& operator=(const PairEvaluator&) = delete;

  /// Does branch `i` keep (b, h, q, k)? `q` and `k` are positions. Includes the branch's heads.
  bool keeps(std::size_t branch, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const;
  /// m of semantics section 2: for joint the number of branches that keep the pair, for union 0 or
  /// 1, for sum and mean the count as well (each is its own softmax).
  int multiplicity(std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const;
  /// s after `scale` and `score`, from the scaled dot product's raw value.
  double score(double dot, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// O, LSE, per-branch LSE of the whole problem. q [B,n_q,H,d], k [B,n_k,H_kv,d], v [B,n_k,H_kv,d_v].
/// User errors: shapes that do not fit, inputs missing or of the wrong extents.
Result<Outcome> interpret(const Pattern& pattern, const Shape& shape, const Tensor& q, const Tensor& k, const Tensor& v,
                          const InputValues& inputs);

struct ChosenKeys;

/// The same for some rows only: `rows` are row numbers (not positions) computed for every batch
/// entry and head; other rows of O and LSE are left 0. Cost is rows × n_k. `chosen`: choices of keys
/// (compiler/ir/chosen_keys.h) that stand in for the interpreter's own.
Result<Outcome> interpret_rows(const Pattern& pattern, const Shape& shape, const Tensor& q, const Tensor& k,
                               const Tensor& v, const InputValues& inputs, const std::vector<std::int64_t>& rows,
                               const std::vector<ChosenKeys>* chosen = nullptr);

/// Error bounds of semantics section 10: on |O| and on LSE (multiply by nothing further), and on gradients as a share
/// of the largest magnitude in each gradient tensor. `max_abs_score`: S, the largest absolute score of a kept pair
/// whose weight is not below 2^-126 of the row's largest. `largest_sum`: of the weights of a row, where nothing is
/// divided by it and it is above 1.
struct Bounds {
  double o = 0;
  double lse = 0;
  double gradient = 0;
};
Bounds error_bounds(const Pattern& pattern, DType dtype, std::int64_t n_k, double max_abs_v, double max_abs_score,
                    double largest_sum = 1);

}  // namespace weft::ir
