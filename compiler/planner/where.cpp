#include "compiler/planner/where.h"

#include "compiler/ir/interval.h"

#include <algorithm>
#include <cstdlib>

namespace weft::planner {
namespace {

using ir::ExprPtr;
using ir::Op;
using ir::Variable;

constexpr std::size_t kMostPieces = 64;
constexpr std::int64_t kMostNodes = 4096;  ///< of a number that a bound may hold, as of a list with one for each head
constexpr std::int64_t kLargest = std::int64_t{1} << 40;
constexpr std::int64_t kFar = std::int64_t{1} << 60;

/// q * query + k * key + c + rest, in positions of `unit` tokens; unit 0: no position occurs. The rest, where there is
/// one, reads neither query nor key: a head's own window, a number of the batch entry.
struct Linear {
  std::int64_t q = 0, k = 0, c = 0, unit = 0;
  ExprPtr rest = nullptr;
};

/// Nothing that a launch allows lies outside of these.
ir::Ranges launchable() {
  constexpr std::int64_t kTokens = std::int64_t{1} << 32, kHeads = 65535;
  ir::Ranges out;
  for (const Variable v : {Variable::q, Variable::k}) out.of(v) = {-kTokens, kTokens};
  for (const Variable v : {Variable::n_q, Variable::n_k}) out.of(v) = {0, kTokens};
  for (const Variable v : {Variable::b, Variable::h, Variable::heads}) out.of(v) = {0, kHeads};
  out.element = [](int) { return ir::Interval{INT32_MIN, INT32_MAX}; };
  return out;
}

/// Does its value lie well inside kFar whatever the inputs hold?
bool is_small(const ir::Expr& e) {
  if (e.type != ir::Type::integer || e.nodes > kMostNodes) return false;
  const ir::Interval value = ir::interval_of(e, launchable());
  return value.lo > -kFar / 2 && value.hi < kFar / 2;
}

bool is_positive(const ir::Expr& e) { return is_small(e) && ir::interval_of(e, launchable()).lo > 0; }

bool is_position(const ExprPtr& e) {
  return e->op == Op::variable && (e->variable == Variable::q || e->variable == Variable::k);
}

bool reads_position(const ir::Expr& e) { return ir::reads(e, Variable::q) || ir::reads(e, Variable::k); }

ExprPtr with_other_sign(const ExprPtr& e) {
  if (e->op == Op::subtract) return ir::apply(Op::subtract, {e->args[1], e->args[0]});
  return ir::apply(Op::negate, {e});
}

ExprPtr sum(const ExprPtr& a, const ExprPtr& b, std::int64_t sign) {
  if (!b) return a;
  if (!a) return sign > 0 ? b : with_other_sign(b);
  return ir::apply(sign > 0 ? Op::add : Op::subtract, {a, b});
}

std::optional<Linear> sum(const Linear& a, const Linear& b, std::int64_t sign) {
  if (a.unit != 0 && b.unit != 0 && a.unit != b.unit) return std::nullopt;
  const Linear out{a.q + sign * b.q, a.k + sign * b.k, a.c + sign * b.c, std::max(a.unit, b.unit),
                   sum(a.rest, b.rest, sign)};
  const bool fits = std::abs(out.q) <= kLargest && std::abs(out.k) <= kLargest && std::abs(out.c) <= kLargest;
  return fits ? std::optional(out) : std::nullopt;
}

std::optional<Linear> linear(const ExprPtr& e);

std::optional<Linear> product(const ExprPtr& e) {
  for (int i : {0, 1}) {
    const ExprPtr& factor = e->args[static_cast<std::size_t>(i)];
    if (factor->op != Op::constant || std::abs(factor->integer) > (1 << 20)) continue;
    const auto a = linear(e->args[static_cast<std::size_t>(1 - i)]);
    if (!a || std::abs(a->c) > (1 << 20) || std::abs(a->q) + std::abs(a->k) > (1 << 20)) return std::nullopt;
    return Linear{a->q * factor->integer, a->k * factor->integer, a->c * factor->integer, a->unit,
                  a->rest ? times(a->rest, factor->integer) : nullptr};
  }
  return std::nullopt;
}

std::optional<Linear> linear(const ExprPtr& e) {
  if (e->type != ir::Type::integer) return std::nullopt;
  if (e->op == Op::constant) {
    return std::abs(e->integer) <= kLargest ? std::optional(Linear{.q = 0, .k = 0, .c = e->integer, .unit = 0})
                                            : std::nullopt;
  }
  if (is_position(e)) return Linear{e->variable == Variable::q, e->variable == Variable::k, 0, 1};
  if (!reads_position(*e)) return is_small(*e) ? std::optional(Linear{.rest = e}) : std::nullopt;
  if (e->op == Op::divide && e->args[1]->op == Op::constant && e->args[1]->integer > 0) {
    const auto inner = linear(e->args[0]);
    const bool plain = inner && !inner->rest && inner->c == 0 && inner->q + inner->k == 1 && inner->q * inner->k == 0;
    if (!plain || e->args[1]->integer > kLargest / inner->unit) return std::nullopt;
    return Linear{inner->q, inner->k, 0, inner->unit * e->args[1]->integer};
  }
  if (e->op == Op::negate) {
    const auto a = linear(e->args[0]);
    return a ? sum({}, *a, -1) : a;
  }
  if (e->op == Op::add || e->op == Op::subtract) {
    const auto a = linear(e->args[0]), b = linear(e->args[1]);
    return a && b ? sum(*a, *b, e->op == Op::add ? 1 : -1) : std::nullopt;
  }
  return e->op == Op::multiply ? product(e) : std::nullopt;
}

ExprPtr opposite(const ExprPtr& e) {
  const auto swapped = [&](Op op) { return ir::apply(op, {e->args[1], e->args[0]}, e->range); };
  const auto flipped = [&](Op op) { return ir::apply(op, e->args, e->range); };
  // A comparison of reals and its opposite both fail for NaN.
  const bool of_reals = !e->args.empty() && e->args[0]->type == ir::Type::real;
  if (e->op == Op::less && !of_reals) return swapped(Op::less_equal);
  if (e->op == Op::less_equal && !of_reals) return swapped(Op::less);
  if (e->op == Op::equal) return flipped(Op::not_equal);
  if (e->op == Op::not_equal) return flipped(Op::equal);
  return nullptr;
}

class Splitter {
 public:
  explicit Splitter(const Context& at) : at_(at), tokens_(at.with_unit(1)) {}

  bool overflow() const { return overflow_; }

  Dnf of(const ExprPtr& e, bool negated) {
    if (overflow_) return {};
    if (e->op == Op::constant) return e->boolean != negated ? Dnf{Conjunction{}} : Dnf{};
    if (ir::over_heads_only(*e)) return {on_heads(negated ? ir::apply(Op::logical_not, {e}) : e)};
    if (e->op == Op::logical_not) return of(e->args[0], !negated);
    if (e->op == Op::logical_and || e->op == Op::logical_or) {
      const Dnf a = of(e->args[0], negated), b = of(e->args[1], negated);
      return (e->op == Op::logical_and) != negated ? both(a, b) : either(a, b);
    }
    if (e->op == Op::select) {
      return either(both(of(e->args[0], false), of(e->args[1], negated)),
                    both(of(e->args[0], true), of(e->args[2], negated)));
    }
    if (e->args.size() == 2 && e->args[0]->type == ir::Type::boolean) {
      const bool differ = (e->op == Op::not_equal) != negated;
      return either(both(of(e->args[0], false), of(e->args[1], differ)),
                    both(of(e->args[0], true), of(e->args[1], !differ)));
    }
    if (!negated) return comparison(e);
    const ExprPtr other = opposite(e);
    return other ? of(other, false) : asked(ir::apply(Op::logical_not, {e}));
  }

 private:
  Dnf both(const Dnf& a, const Dnf& b) {
    auto out = planner::both(a, b, kMostPieces);
    if (!out) overflow_ = true;
    return out ? std::move(*out) : Dnf{};
  }

  Dnf either(Dnf a, const Dnf& b) {
    Dnf out = unite(std::move(a), b);
    if (out.size() > kMostPieces) overflow_ = true;
    return out;
  }

  Dnf asked(const ExprPtr& e) {
    if (e->op == Op::constant) return of(e, false);
    return {at_.condition(e)};
  }

  Dnf comparison(const ExprPtr& e) {
    if (e->args.size() != 2 || e->args[0]->type != ir::Type::integer) return asked(e);
    const ExprPtr &a = e->args[0], &b = e->args[1];
    if (auto pieces = magnitude(e->op, a, b)) return *pieces;
    const auto la = linear(a), lb = linear(b);
    if (const auto difference = la && lb ? sum(*la, *lb, -1) : std::nullopt) {
      if (auto pieces = half_lines(e->op, *difference)) return *pieces;
    }
    if (auto pieces = extremes(e->op, a, b)) return *pieces;
    if (e->op == Op::equal || e->op == Op::not_equal) {
      if (auto pieces = agreement(e->op, a, b)) return *pieces;
      if (auto pieces = agreement(e->op, b, a)) return *pieces;
    } else if (auto pieces = one_sided(e->op, a, b)) {
      return *pieces;
    }
    return asked(e);
  }

  ExprPtr compare(Op op, const ExprPtr& a, const ExprPtr& b) { return ir::apply(op, {a, b}); }

  /// |x| against y, in cases.
  std::optional<Dnf> magnitude(Op op, const ExprPtr& a, const ExprPtr& b) {
    const auto cases = [&](Op with, const ExprPtr& x, const ExprPtr& y, bool left, bool join) {
      const ExprPtr minus_x = ir::apply(Op::negate, {x});
      const auto one = [&](const ExprPtr& v) { return of(left ? compare(with, v, y) : compare(with, y, v), false); };
      return join ? either(one(x), one(minus_x)) : both(one(x), one(minus_x));
    };
    const bool ordered = op == Op::less || op == Op::less_equal;
    if (ordered && a->op == Op::absolute) return cases(op, a->args[0], b, true, false);
    if (ordered && b->op == Op::absolute) return cases(op, b->args[0], a, false, true);
    const bool left = a->op == Op::absolute && b->op == Op::constant;
    const bool right = b->op == Op::absolute && a->op == Op::constant;
    if (ordered || (!left && !right)) return std::nullopt;
    const ExprPtr &x = left ? a->args[0] : b->args[0], &y = left ? b : a;
    if (y->integer < 0) return op == Op::equal ? Dnf{} : Dnf{Conjunction{}};
    return cases(op, x, y, true, op == Op::equal);
  }

  /// `max(x, y) < z`, `x < min(y, z)` and the like, where each of the two bounds one side by the other.
  std::optional<Dnf> extremes(Op op, const ExprPtr& a, const ExprPtr& b) {
    if (op == Op::equal || op == Op::not_equal) return std::nullopt;
    const auto splits = [](const ExprPtr& e) { return e->op == Op::minimum || e->op == Op::maximum; };
    const bool left = splits(a);
    if (!left && !splits(b)) return std::nullopt;
    const ExprPtr &extreme = left ? a : b, &other = left ? b : a;
    const auto lo = linear(other);
    for (const ExprPtr& x : extreme->args) {
      const auto lx = linear(x);
      const auto difference = lo && lx ? sum(*lo, *lx, -1) : std::nullopt;
      if (!difference || difference->unit == 0) return std::nullopt;
    }
    const auto one = [&](std::size_t i) {
      return of(left ? compare(op, extreme->args[i], b) : compare(op, a, extreme->args[i]), false);
    };
    return (extreme->op == Op::maximum) == left ? both(one(0), one(1)) : either(one(0), one(1));
  }

  /// `d op 0`, where it bounds one side by the other or by a number.
  std::optional<Dnf> half_lines(Op op, const Linear& d) {
    if (op == Op::equal) return joined(half_line(d, 0), half_line(negative(d), 0), false);
    if (op == Op::not_equal) return joined(half_line(d, 1), half_line(negative(d), 1), true);
    return half_line(d, op == Op::less ? 1 : 0);
  }

  static Linear negative(const Linear& d) { return *sum({}, d, -1); }

  std::optional<Dnf> joined(const std::optional<Dnf>& a, const std::optional<Dnf>& b, bool join) {
    if (!a || !b) return std::nullopt;
    return join ? either(*a, *b) : both(*a, *b);
  }

  /// d + strict <= 0
  std::optional<Dnf> half_line(const Linear& d, std::int64_t strict) const {
    const std::int64_t c = d.c + strict;
    if (d.rest || std::abs(d.q) > 1 || std::abs(d.k) > 1) return row_bound(d, c);
    if (d.q == 0 && d.k == 0) return c <= 0 ? Dnf{Conjunction{}} : Dnf{};
    const Context at = tokens_.with_unit(d.unit);
    if (d.k == 1 && d.q == -1) return Dnf{at.key_at_most(-c)};
    if (d.k == -1 && d.q == 1) return Dnf{at.key_within(-c)};
    if (d.q == 0 && d.k == 1) return Dnf{at.key_below(1 - c)};
    if (d.q == 0 && d.k == -1) return Dnf{at.key_from(c)};
    if (d.k == 0 && d.q == 1) return Dnf{at.query_below(1 - c)};
    if (d.k == 0 && d.q == -1) return Dnf{at.query_from(c)};
    return std::nullopt;
  }

  /// d + c <= 0 with the streamed side alone on the left, as a bound that the row gives and that never falls.
  std::optional<Dnf> row_bound(const Linear& d, std::int64_t c) const {
    const std::int64_t of_y = of_streamed(d), of_x = of_row(d);
    const bool falls = of_y > 0 ? of_x > 0 : of_x < 0;
    if (of_y == 0 || falls || d.unit == 0) return std::nullopt;
    const Context at = tokens_.with_unit(d.unit);
    const ExprPtr x = at.stationary();
    // y >= ceil((of_x * x + rest + c) / -of_y), or y < floor(-(of_x * x + rest + c) / of_y) + 1
    const std::int64_t sign = of_y > 0 ? -1 : 1, by = std::abs(of_y);
    const ExprPtr add = ir::constant(of_y > 0 ? by - c : by - 1 + c);
    const ExprPtr shift = d.rest ? plus(sign > 0 ? d.rest : with_other_sign(d.rest), add) : add;
    const auto moved = [&](std::int64_t unit) {
      return of_x == 0 ? times(shift, unit) : plus(times(x, sign * of_x * unit), times(shift, unit));
    };
    const ExprPtr tokens = by == 1 ? moved(d.unit) : times(over(moved(1), by), d.unit);
    if (!is_small(*tokens)) return std::nullopt;
    const ir::Bound bound = at_.form(tokens);
    return Dnf{of_y > 0 ? below(bound) : at_least(bound)};
  }

  static Dnf with_sign(Op op, const Conjunction& c) {
    if (op == Op::equal) return {c};
    Conjunction out = c;
    for (auto& use : out.pairs) use.negated = !use.negated;
    for (auto* list : {&out.x, &out.y}) {
      for (auto& g : *list) g.negated = !g.negated;
    }
    return {out};
  }

  /// (…) % m == r as a stride; or two values, one of each side.
  std::optional<Dnf> agreement(Op op, const ExprPtr& a, const ExprPtr& b) {
    if (auto stride = remainder(a, b)) return with_sign(op, *stride);
    if (auto pieces = same_segment(op, a, b)) return *pieces;
    const bool apart = !ir::reads(*a, Variable::k) && !ir::reads(*b, Variable::q) && ir::reads(*b, Variable::k);
    if (!apart || !ir::reads(*a, Variable::q)) return std::nullopt;
    return with_sign(op, at_.equal(a, b));
  }

  /// q / w == k / w, where w is the head's own.
  std::optional<Dnf> same_segment(Op op, const ExprPtr& a, const ExprPtr& b) const {
    const Variable x = at_.row_variable(), y = at_.streamed_variable();
    const auto divides = [](const ExprPtr& e, Variable v) {
      return e->op == Op::divide && e->args[0]->op == Op::variable && e->args[0]->variable == v;
    };
    if (op != Op::equal || !divides(a, x) || !divides(b, y) || !ir::same(*a->args[1], *b->args[1])) return std::nullopt;
    const ExprPtr& w = a->args[1];
    const ExprPtr begin = ir::apply(Op::multiply, {a, w}), end = plus(begin, w);
    if (reads_position(*w) || !is_positive(*w) || !is_small(*end)) return std::nullopt;
    return Dnf{all_of(at_least(at_.form(begin)), below(at_.form(end)))};
  }

  std::optional<Conjunction> remainder(const ExprPtr& a, const ExprPtr& b) const {
    const bool fits = a->op == Op::modulo && a->args[1]->op == Op::constant && b->op == Op::constant;
    if (!fits) return std::nullopt;
    const std::int64_t m = a->args[1]->integer, r = b->integer;
    const auto d = linear(a->args[0]);
    if (!d || d->rest || m < 2 || m > kLargest || r < 0 || r >= m || d->unit == 0) return std::nullopt;
    const Context at = tokens_.with_unit(d->unit);
    const auto number = [&](std::int64_t sign) { return ir::constant(ir::floor_mod(sign * (r - d->c), m)); };
    const bool key = std::abs(d->k) == 1, query = std::abs(d->q) == 1;
    if (key && d->q == 0 && d->unit == 1) {
      return at.key_is({.segment = 0, .rate = m, .phase = number(d->k), .negated = false});
    }
    if (query && d->k == 0 && d->unit == 1) {
      return at.query_is({.segment = 0, .rate = m, .phase = number(d->q), .negated = false});
    }
    if (!key || !query) return std::nullopt;
    // k = ±(r - c) ∓ (±q) modulo m
    return at.key_modulo(m, d->q == d->k ? -1 : 1, number(d->k)->integer);
  }

  /// A bound of the streamed side, where the other reads none of it: one for all rows, or a form of the row's own.
  std::optional<Dnf> one_sided(Op op, const ExprPtr& a, const ExprPtr& b) {
    const auto la = linear(a), lb = linear(b);
    const auto is_streamed = [&](const std::optional<Linear>& l) {
      return l && !l->rest && of_streamed(*l) == 1 && of_row(*l) == 0;
    };
    const std::int64_t open = op == Op::less ? 1 : 0;
    if (is_streamed(la) && !ir::reads(*b, at_.streamed_variable())) {  // y + c < b: below b - c
      const ExprPtr end = minus(b, ir::constant(la->c - 1 + open));
      return from_or_below(la->unit, end, b, false);
    }
    if (is_streamed(lb) && !ir::reads(*a, at_.streamed_variable())) {  // a < y + c: from a - c + 1
      const ExprPtr from = minus(a, ir::constant(lb->c - open));
      return from_or_below(lb->unit, from, a, true);
    }
    return ordered_sides(a, b, open);
  }

  /// One value of the streamed side alone against one of the row alone: an interval without an end.
  std::optional<Dnf> ordered_sides(const ExprPtr& a, const ExprPtr& b, std::int64_t open) const {
    const Variable row = at_.row_variable(), streamed = at_.streamed_variable();
    const auto alone = [](const ExprPtr& e, Variable v, Variable other) {
      return ir::reads(*e, v) && !ir::reads(*e, other) && is_small(*e);
    };
    if (alone(a, streamed, row) && alone(b, row, streamed))
      return Dnf{at_.between(a, ir::constant(-kFar), minus(b, ir::constant(open - 1)))};
    if (alone(b, streamed, row) && alone(a, row, streamed))
      return Dnf{at_.between(b, minus(a, ir::constant(-open)), ir::constant(kFar))};
    return std::nullopt;
  }

  std::optional<Dnf> from_or_below(std::int64_t unit, const ExprPtr& end, const ExprPtr& read, bool from) const {
    const Context at = tokens_.with_unit(unit);
    if (!ir::reads(*read, at.row_variable())) {
      const ir::Bound bound = at.form(times(end, unit));
      return Dnf{from ? at_least(bound) : below(bound)};
    }
    return Dnf{from ? at.between(at.streamed(), end, ir::constant(kFar))
                    : at.between(at.streamed(), ir::constant(-kFar), end)};
  }

  std::int64_t of_streamed(const Linear& d) const { return at_.transposed() ? d.q : d.k; }
  std::int64_t of_row(const Linear& d) const { return at_.transposed() ? d.k : d.q; }

  const Context& at_;
  Context tokens_;
  bool overflow_ = false;
};

}  // namespace

std::optional<Dnf> pieces_of(const ExprPtr& condition, const Context& at) {
  Splitter splitter(at);
  Dnf out = splitter.of(condition, false);
  if (splitter.overflow()) return std::nullopt;
  return out;
}

}  // namespace weft::planner
