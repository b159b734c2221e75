#pragma once

#include "compiler/ir/dual.h"
#include "compiler/ir/pattern_interpreter_problem.h"

#include <cmath>

/// Real expressions and scores over two kinds of numbers: doubles, which are the meaning, and duals, which are its
/// slopes. Not for use outside the interpreters.
namespace weft::ir {

/// What conditions, integers and indices are made of: these have no slope.
inline double plain(double x) { return x; }
inline double plain(const Dual& x) { return x.value; }

/// A real expression at a pair. `given(element, value)` is the number that stands for an element of an input; without
/// an element where the input has none.
template <typename Number, typename Given>
Number real_value(const Expr& e, const Scope& scope, const Pair& pair, const Number& s, const Given& given) {
  const auto real = [&](std::size_t i) { return real_value(*e.args[i], scope, pair, s, given); };
  const auto integer = [&](std::size_t i) { return evaluate_integer(*e.args[i], scope, pair, plain(s)); };
  if (e.op == Op::constant) return e.real;
  if (e.op == Op::variable) return s;
  if (e.op == Op::input) {
    const Element at = element_read(e, scope, pair, plain(s));
    return given(at, value_of(scope.problem, at));
  }
  if (e.op == Op::to_real) return static_cast<double>(integer(0));
  if (e.op == Op::alibi) return alibi_slope(integer(0), scope.problem.shape.heads);
  if (e.op == Op::select) return real(takes_first(e, scope, pair, plain(s)) ? 1 : 2);
  const Number a = real(0);
  return apply_real(e.op, a, e.args.size() > 1 ? real(1) : Number(0));
}

/// What a pair's weight is the exponential or the sigmoid of, from the product of query and key: s of semantics
/// section 2, after `scale` and `score`, or what `weights sigmoid` makes of that.
template <typename Number, typename Given>
Number score_of(const Scope& scope, const Pair& pair, const Number& product, const Given& given) {
  const Pattern& p = scope.problem.pattern;
  const Number scale = p.scale ? real_value(*p.scale, scope, pair, Number(0), given)
                               : Number(1 / std::sqrt(static_cast<double>(scope.problem.shape.d)));
  const Number s = scale * product;
  const Number score = p.score ? real_value(*p.score, scope, pair, s, given) : s;
  return p.sigmoid ? real_value(*p.sigmoid, scope, pair, score, given) : score;
}

/// `given` of the doubles.
inline double as_it_is(const Element&, double value) { return value; }

}  // namespace weft::ir
