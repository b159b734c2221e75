#include "compiler/ir/distances.h"

#include <algorithm>

namespace weft::ir {
namespace {

/// How often q and k stand in a sum.
struct Sides {
  std::int64_t q = 0, k = 0;
};

void add_sides(const Expr& e, std::int64_t sign, Sides& to) {
  if (e.op == Op::variable && e.variable == Variable::q) to.q += sign;
  if (e.op == Op::variable && e.variable == Variable::k) to.k += sign;
  if (e.op == Op::negate) add_sides(*e.args[0], -sign, to);
  if (e.op != Op::add && e.op != Op::subtract) return;
  add_sides(*e.args[0], sign, to);
  add_sides(*e.args[1], e.op == Op::add ? sign : -sign, to);
}

/// What is left of a sum when those of its terms that are q or k are taken out.
Interval rest_of(const Expr& e, const Ranges& ranges) {
  Ranges without = ranges;
  if (e.op == Op::variable)
    return e.variable == Variable::q || e.variable == Variable::k ? Interval{0, 0} : interval_of(e, ranges);
  if (e.op == Op::negate) {
    const Interval a = rest_of(*e.args[0], ranges);
    return is_known(a) ? Interval{-a.hi, -a.lo} : kAnything;
  }
  if (e.op != Op::add && e.op != Op::subtract) return interval_of(e, ranges);
  const Interval a = rest_of(*e.args[0], ranges), b = rest_of(*e.args[1], ranges);
  if (!is_known(a) || !is_known(b)) return kAnything;
  return e.op == Op::add ? Interval{a.lo + b.lo, a.hi + b.hi} : Interval{a.lo - b.hi, a.hi - b.lo};
}

Interval meet(const Interval& a, const Interval& b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }

/// a op b, in q - k. Numbers of heads and entries may be anything here.
Interval distance_of(Op op, const Expr& a, const Expr& b) {
  if (a.type != Type::integer || (op != Op::less && op != Op::less_equal && op != Op::equal)) return kAnything;
  Sides sides;
  add_sides(a, 1, sides);
  add_sides(b, -1, sides);
  if (sides.q != -sides.k || (sides.q != 1 && sides.q != -1)) return kAnything;
  Ranges nothing;
  nothing.variable.fill(kAnything);
  const Interval x = rest_of(a, nothing), y = rest_of(b, nothing);
  if (!is_known(x) || !is_known(y)) return kAnything;
  // q - k + x - y op 0, or its mirror image
  const std::int64_t strict = op == Op::less ? 1 : 0;
  const Interval apart = sides.q > 0 ? Interval{y.lo - x.hi, y.hi - x.lo} : Interval{x.lo - y.hi, x.hi - y.lo};
  if (op == Op::equal) return apart;
  return sides.q > 0 ? Interval{-kFarAway, apart.hi - strict} : Interval{apart.lo + strict, kFarAway};
}

Interval distance_of(const Expr& e) {
  if (e.op == Op::logical_and) return meet(distance_of(*e.args[0]), distance_of(*e.args[1]));
  if (e.op == Op::logical_or) return hull(distance_of(*e.args[0]), distance_of(*e.args[1]));
  if (e.args.size() != 2) return kAnything;
  const Expr &a = *e.args[0], &b = *e.args[1];
  const bool bounded = (e.op == Op::less || e.op == Op::less_equal) && a.op == Op::absolute;
  if (!bounded) return distance_of(e.op, a, b);
  return meet(distance_of(e.op, *a.args[0], b), distance_of(e.op, *apply(Op::negate, {a.args[0]}), b));
}

/// Blocks that stand so far apart, in positions.
Interval of_blocks(const Interval& blocks, std::int64_t size) {
  const Interval apart{blocks.lo <= -kFarAway ? -kFarAway : blocks.lo - 1,
                       blocks.hi >= kFarAway ? kFarAway : blocks.hi + 1};
  const auto scaled = [&](std::int64_t x) {
    const __int128 wide = static_cast<__int128>(x) * size;
    return static_cast<std::int64_t>(std::clamp<__int128>(wide, -kFarAway, kFarAway));
  };
  return {scaled(apart.lo) + (apart.lo > -kFarAway ? 1 : 0), scaled(apart.hi) - (apart.hi < kFarAway ? 1 : 0)};
}

}  // namespace

Interval hull(const Interval& a, const Interval& b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Interval distance_of(const Set& set) {
  const auto between = [](std::int64_t lo, std::int64_t hi) { return Interval{lo, hi}; };
  const auto number = [&](std::size_t i) { return std::clamp(set.args[i], -kFarAway, kFarAway); };
  const auto of_child = [&](std::size_t i) { return distance_of(*set.children[i]); };
  const auto of_children = [&](const auto& join) {
    Interval out = of_child(0);
    for (std::size_t i = 1; i < set.children.size(); ++i) out = join(out, of_child(i));
    return out;
  };
#define WEFT_ANY_SET(name, word, print, nothing, apart) \
  if (set.kind == SetKind::name) return apart;
#include "dsl/sets.def"
  return kAnything;
}

Interval interval_at(const Expr& e, const Ranges& ranges, const Interval& distance) {
  const Interval plain = interval_of(e, ranges);
  Sides sides;
  add_sides(e, 1, sides);
  if (sides.q != -sides.k || (sides.q != 1 && sides.q != -1)) return plain;
  const Interval rest = rest_of(e, ranges);
  if (!is_known(rest)) return plain;
  const auto moved = [&](std::int64_t apart, std::int64_t by) {
    return apart <= -kFarAway || apart >= kFarAway ? apart : apart + by;
  };
  const Interval apart = sides.q > 0 ? distance : Interval{-distance.hi, -distance.lo};
  return meet(plain, {moved(apart.lo, rest.lo), moved(apart.hi, rest.hi)});
}

}  // namespace weft::ir
