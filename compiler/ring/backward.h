#pragma once

#include "compiler/base/result.h"
#include "compiler/ring/report.h"

#include <vector>

/// The backward pass on ranks. A rank computes dQ of its own rows from the keys that they keep, as in the forward, and
/// dK and dV of its own keys from the rows of all ranks that keep them: rows of Q, O and dO travel where in other rings
/// sums of dK and dV do. Nothing is added up across ranks, so that gradients have the bits of one device.
namespace weft::ring {

class BackwardNeeds {
 public:
  /// `forward` and `transposed` are the pattern's relation and its transpose: rows are keys, keys are rows.
  /// `finds_deltas`: of the backward pass's plan. Keeps references to all it is given.
  BackwardNeeds(const Relation& forward, const Relation& transposed, const Split& split, bool finds_deltas)
      : forward_(forward), transposed_(transposed), split_(split), finds_deltas_(finds_deltas) {}

  const Relation& forward() const { return forward_; }
  const Relation& transposed() const { return transposed_; }
  const Split& split() const { return split_; }

  /// Rows of others that keep keys of a group, for all heads; nothing of one without tokens.
  std::vector<Needs> rows_of(std::int64_t group) const;
  /// Keys of others that its rows keep. Where deltas are found from pairs, as of a branch or a softmax of its own, rows
  /// of others want their keys, too.
  std::vector<Needs> keys_of(std::int64_t group) const;

 private:
  const Relation& forward_;
  const Relation& transposed_;
  const Split& split_;
  bool finds_deltas_;
};

/// What a backward pass makes of the forward's split: rows are computed where they are. User error where not all fit
/// the memory.
Status prepare_backward(Split& split);

/// Of one row and query head: Q and dO, and where the weights are a softmax O, LSE and dLSE.
double bytes_of_backward_row(const Relation& forward);

/// As of the forward pass. Pairs of a rank are the mean of those of its rows and those of its keys; what others would
/// move is K and V and f32 sums of dK and dV. Everything has come before a rank computes.
Report report_of(const BackwardNeeds& needs, const Machine& machine);

}  // namespace weft::ring
