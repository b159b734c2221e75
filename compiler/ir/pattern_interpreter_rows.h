#pragma once

#include "compiler/ir/pattern_interpreter_problem.h"

#include <cstdint>
#include <limits>
#include <vector>

/// The walk over a problem's rows that values and gradients share. Not for use outside the interpreters.
namespace weft::ir {

/// One softmax over some keys of a row; or their sigmoids, which are measured from 0 and have the total 1.
struct Softmax {
  const std::vector<std::int64_t>* keys = nullptr;  ///< of the walk: until it moves on
  bool counted = false;                             ///< by how many branches keep a key
  double largest = -std::numeric_limits<double>::infinity();
  double total = 0;  ///< of the weights, …
  double sink = 0;   ///< … with that of the row's sink

  /// No key, or every score is -inf.
  bool empty() const { return largest == -std::numeric_limits<double>::infinity(); }
  double lse() const;
};

/// One row after the other: which keys it keeps, and their scores. Buffers are as long as there are keys and live
/// across rows.
class RowWalk {
 public:
  explicit RowWalk(const Problem& problem);

  void move_to(std::int64_t b, std::int64_t h, std::int64_t row);

  const std::vector<std::int64_t>& all() const { return all_; }  ///< kept by some branch
  Pair pair(std::int64_t k) const { return {pair_.b, pair_.h, pair_.q, k}; }
  const Scope& scope() const { return scope_; }
  double product(std::int64_t k) const;  ///< of query and key
  double score(std::int64_t k) const { return score_[static_cast<std::size_t>(k)]; }
  bool dropped(std::int64_t k) const;

  /// Of a branch, or of the whole row, whose branches are counted and which has a sink.
  Softmax branch(std::size_t i) const { return softmax(kept_[i], false); }
  Softmax whole() const { return softmax(all_, true); }
  /// m exp(s - largest), or m sigmoid(s)
  double weight(const Softmax& softmax, std::int64_t k) const;
  /// What a branch's output counts for where branches are added.
  double share() const;

  // Where rows stand in tensors.
  std::size_t row_number() const;                  ///< of [B, H, n_q]
  std::size_t branch_number(std::size_t i) const;  ///< of [branches, B, H, n_q]
  std::size_t query_number() const;                ///< of [B, n_q, H]
  std::size_t key_number(std::int64_t k) const;    ///< of [B, n_k, H_kv]

 private:
  Softmax softmax(const std::vector<std::int64_t>& keys, bool whole) const;
  void find_kept();
  void find_scores();

  const Problem& problem_;
  Scope scope_;
  std::uint64_t threshold_;
  std::vector<int> count_;
  std::vector<double> score_;
  std::vector<std::vector<std::int64_t>> kept_;  ///< by branch
  std::vector<std::int64_t> all_ = {};
  std::int64_t row_ = 0;
  Pair pair_ = {};
};

}  // namespace weft::ir
