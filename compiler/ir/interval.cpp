#include "compiler/ir/interval.h"

#include <algorithm>
#include <cstdlib>

namespace weft::ir {
namespace {

static_assert(std::tuple_size_v<decltype(Ranges::variable)> == static_cast<std::size_t>(Variable::s) + 1);

/// An end that lies beyond ±kFarAway has lost its value: what is made of it may be anything.
Interval checked(const WideInterval& of) {
  const auto near = [](Wide end) { return static_cast<std::int64_t>(std::clamp<Wide>(end, -kFarAway, kFarAway)); };
  const Interval out{near(of.lo), near(of.hi)};
  return is_known(out) ? out : kAnything;
}

Interval unite(const Interval& a, const Interval& b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Truth opposite(Truth t) { return t == Truth::yes ? Truth::no : t == Truth::no ? Truth::yes : Truth::maybe; }

Truth compare(Op op, const Interval& a, const Interval& b) {
  if (!is_known(a) || !is_known(b)) return Truth::maybe;
#define WEFT_ORDER(name, holds, surely, never, ...) \
  if (op == Op::name) return (surely) ? Truth::yes : (never) ? Truth::no : Truth::maybe;
#include "compiler/base/ops.def"
  return Truth::maybe;
}

}  // namespace

bool is_known(const Interval& i) { return i.lo > -kFarAway && i.hi < kFarAway; }

Interval interval_of(const Expr& e, const Ranges& ranges) {
  if (e.type != Type::integer) return kAnything;
  if (e.op == Op::constant) return checked({e.integer, e.integer});
  if (e.op == Op::variable) return ranges.of(e.variable);
  if (e.op == Op::input) return ranges.element ? ranges.element(e.input) : kAnything;
  if (e.op == Op::select) {
    const Truth first = truth_of(*e.args[0], ranges);
    if (first == Truth::yes) return interval_of(*e.args[1], ranges);
    if (first == Truth::no) return interval_of(*e.args[2], ranges);
    return unite(interval_of(*e.args[1], ranges), interval_of(*e.args[2], ranges));
  }
  if (e.op == Op::floor) return {-kLargestWhole, kLargestWhole};
  Interval a = interval_of(*e.args[0], ranges);
  const Interval b = e.args.size() > 1 ? interval_of(*e.args[1], ranges) : a;
  // A value that may have wrapped says nothing of what is made of it, but a remainder is small all the same.
  if (!is_known(b) || (!is_known(a) && e.op != Op::modulo)) return kAnything;
  if (!is_known(a)) a = kAnything;
  const auto value = weft::interval_of(e.op, {a.lo, a.hi}, {b.lo, b.hi});
  return value ? checked(*value) : kAnything;
}

Truth truth_of(const Expr& e, const Ranges& ranges) {
  const auto part = [&](std::size_t i) { return truth_of(*e.args[i], ranges); };
  if (e.op == Op::constant) return e.boolean ? Truth::yes : Truth::no;
  if (e.op == Op::logical_not) return opposite(part(0));
  if (e.op == Op::logical_and) return std::min(part(0), part(1));
  if (e.op == Op::logical_or) return std::max(part(0), part(1));
  if (e.op == Op::select) {
    const Truth first = part(0);
    if (first != Truth::maybe) return part(first == Truth::yes ? 1 : 2);
    return part(1) == part(2) ? part(1) : Truth::maybe;
  }
  if (e.args.size() != 2 || e.op == Op::listed) return Truth::maybe;
  if (e.args[0]->type == Type::boolean) {
    const Truth a = part(0), b = part(1);
    if (a == Truth::maybe || b == Truth::maybe) return Truth::maybe;
    return (a == b) == (e.op == Op::equal) ? Truth::yes : Truth::no;
  }
  if (e.args[0]->type != Type::integer) return Truth::maybe;
  return compare(e.op, interval_of(*e.args[0], ranges), interval_of(*e.args[1], ranges));
}

}  // namespace weft::ir
