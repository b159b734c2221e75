#pragma once

#include "compiler/ir/predicates.h"
#include "compiler/planner/conjunctions.h"

/// Where a set stands: which side is streamed, and whether its positions are tokens or numbers of blocks.
namespace weft::planner {

class Context {
 public:
  explicit Context(Draft& draft);

  /// The same inside `blocks(size, …)`: positions are numbers of blocks from here on.
  Context inside(std::int64_t size) const;

  const ir::Pattern& pattern() const { return draft_->pattern; }
  bool transposed() const { return transposed_; }
  /// Tokens of a position; 1 outside blocks.
  std::int64_t unit() const { return unit_; }
  /// The same with more tokens, for conditions that divide positions themselves.
  Context with_unit(std::int64_t unit) const;

  // Conditions on the key and on the query, whichever of them is streamed, against a number of positions.
  Conjunction key_below(std::int64_t n) const { return key_below(number(scaled(n))); }
  Conjunction key_from(std::int64_t n) const { return key_from(number(scaled(n))); }
  Conjunction query_below(std::int64_t n) const { return query_below(number(scaled(n))); }
  Conjunction query_from(std::int64_t n) const { return query_from(number(scaled(n))); }
  /// k <= q + c, and q - a <= k. Transposed: q >= k - c, and q <= k + a.
  Conjunction key_at_most(std::int64_t c) const;
  Conjunction key_within(std::int64_t a) const;
  /// q / w == k / w
  Conjunction same_segment(std::int64_t w) const;

  // Against a bound in tokens.
  Conjunction key_below(ir::Bound e) const { return transposed_ ? row_is(e, true) : below(e); }
  Conjunction key_from(ir::Bound e) const { return transposed_ ? row_is(e, false) : at_least(e); }
  Conjunction query_below(ir::Bound e) const { return transposed_ ? below(e) : row_is(e, true); }
  Conjunction query_from(ir::Bound e) const { return transposed_ ? at_least(e) : row_is(e, false); }

  Conjunction key_is(ir::Congruence c) const;
  Conjunction query_is(ir::Congruence c) const;
  /// k = sign * q + shift modulo `modulus`, sign 1 or -1: a stride that the row gives.
  Conjunction key_modulo(std::int64_t modulus, std::int64_t sign = 1, std::int64_t shift = 0) const;
  /// Two values agree, one of the query alone and one of the key alone.
  Conjunction equal(ir::ExprPtr of_query, ir::ExprPtr of_key) const;
  /// lo <= of_streamed < hi, where the ends are the row's alone.
  Conjunction between(ir::ExprPtr of_streamed, ir::ExprPtr lo, ir::ExprPtr hi) const;
  Conjunction pair(ir::Predicate p) const;
  Conjunction condition(ir::ExprPtr holds) const;
  /// Is the key among those that the list chose for the query?
  Conjunction listed(ir::List list) const;
  /// A bound in tokens that the row gives; between rows it falls by `slack` at most.
  ir::Bound form(ir::ExprPtr tokens, std::int64_t slack = 0) const;

  // Positions and their number, over the variables of tokens.
  ir::ExprPtr query() const { return position(ir::Variable::q); }
  ir::ExprPtr key() const { return position(ir::Variable::k); }
  ir::Variable row_variable() const { return ir::row_variable(draft_->options.stationary); }
  ir::Variable streamed_variable() const { return ir::key_variable(draft_->options.stationary); }
  ir::ExprPtr stationary() const { return position(row_variable()); }
  ir::ExprPtr streamed() const { return position(streamed_variable()); }
  ir::ExprPtr count() const;
  /// The expression with positions of this context in the place of its variables.
  ir::ExprPtr positions(ir::ExprPtr e) const;
  /// Element of an input at b, h and the given positions, as its axes say.
  ir::ExprPtr element(int input, const std::vector<ir::ExprPtr>& at) const;

 private:
  ir::ExprPtr position(ir::Variable v) const;
  std::int64_t scaled(std::int64_t n) const;

  Draft* draft_;
  bool transposed_;
  std::int64_t unit_ = 1;
};

// Integer arithmetic for those who write conditions.
ir::ExprPtr plus(ir::ExprPtr a, ir::ExprPtr b);
ir::ExprPtr minus(ir::ExprPtr a, ir::ExprPtr b);
ir::ExprPtr times(ir::ExprPtr a, std::int64_t b);
ir::ExprPtr over(ir::ExprPtr a, std::int64_t b);
ir::ExprPtr modulo(ir::ExprPtr a, std::int64_t b);
ir::ExprPtr least(ir::ExprPtr a, ir::ExprPtr b);
ir::ExprPtr largest(ir::ExprPtr a, ir::ExprPtr b);

}  // namespace weft::planner
