#pragma once

#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/tensor.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

/// What a plan's conditions on pairs depend on, and their values. A tile looks at the parts of a condition that read
/// its row alone: where all rows agree on them, the condition is one on keys.
namespace weft::ir {

/// The variable of the stationary side, and of the streamed one.
inline Variable row_variable(Stationary s) { return s == Stationary::query ? Variable::q : Variable::k; }
inline Variable key_variable(Stationary s) { return s == Stationary::query ? Variable::k : Variable::q; }

bool reads_row(const Predicate& p, Stationary s);
bool reads_key(const Predicate& p, Stationary s);
/// Other than by a list of chosen keys, which each head may have of its own.
bool reads_head(const Predicate& p);

/// The largest parts of the condition that read the row and not the key, each once. `lo` and `hi` of an interval.
std::vector<ExprPtr> row_parts(const Predicate& p, Stationary s);

/// Keys come in runs of so many, from multiples of it, that the condition cannot tell apart; at least 1.
std::int64_t key_unit(const Predicate& p, Stationary s);

/// Of a condition that is the choice of a list: of how many keys it has numbers. 0 for others.
std::int64_t listed_unit(const Predicate& p, Stationary s);

/// Rows come in runs of so many, from multiples of it, that none of the plan's conditions on pairs can tell apart; 0
/// where none reads a row and a key.
std::int64_t row_unit(const Plan& plan, Stationary s);
/// … that neither they nor those on rows nor what `ranges` say of a row can tell apart; 0 where nothing reads a row.
std::int64_t unit_of_rows(const Plan& plan, const std::vector<KeyRange>& ranges, Stationary s);

/// The key of an interval, where it is that of a row in a grid: k / unit, modulo `modulus` unless that is 0.
struct PeriodicKey {
  std::int64_t unit = 1;
  std::int64_t modulus = 0;
};
std::optional<PeriodicKey> periodic_key(const Predicate& p, Stationary s);

/// Number of the plan's list that summarizes what keys say to the condition; -1 without one.
int summary_of(const Plan& plan, std::size_t condition);
/// … and of the list of who chose the keys of which it is the choice.
int choosers_of(const Plan& plan, std::size_t condition);

/// Does what a summary is made of read the variable?
bool summary_reads(const Plan& plan, const List& summary, Variable v);

/// Values at one size. Keeps references to all it is given.
class PairValues {
 public:
  /// `q` and `k` are read by lists of pooled scores only.
  PairValues(const Plan& plan, const Shape& shape, const InputValues& inputs, const Tensor* q = nullptr,
             const Tensor* k = nullptr);
  ~PairValues();
  PairValues(const PairValues&) = delete;
  PairValues& operator=(const PairValues&) = delete;

  const Plan& plan() const;
  bool holds(const Predicate& p, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const;
  std::int64_t integer(const Expr& e, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const;
  /// The value of a part of any type; reals and booleans as numbers.
  double number(const Expr& e, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const;
  double score(double s, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const;
  /// Of a plan that has one.
  double sink_logit(std::int64_t h) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::ir
