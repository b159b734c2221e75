#include "compiler/planner/primitives.h"

#include <algorithm>

namespace weft::planner {
namespace {

using ir::Bound;
using ir::Set;
using ir::SetKind;

/// No position comes near it, so that larger numbers of the user mean the same and nothing overflows.
constexpr std::int64_t kFar = std::int64_t{1} << 60;

std::int64_t arg(const Set& set, std::size_t i) { return std::clamp(set.args[i], -kFar, kFar); }

Dnf causal(const Set&, const Context& at) { return {at.key_at_most(0)}; }

Dnf window(const Set& set, const Context& at) {
  const std::int64_t a = arg(set, 0), c = arg(set, 1);
  if (a + c < 0) return {};
  return {all_of(at.key_within(a), at.key_at_most(c))};
}

Dnf segment(const Set& set, const Context& at) { return {at.same_segment(arg(set, 0))}; }

/// (position % w) % r == phase
ir::ExprPtr residue(const ir::ExprPtr& position, std::int64_t w, std::int64_t r) {
  return modulo(w > 0 ? modulo(position, w) : position, r);
}

Conjunction keys_of_rate(const Context& at, std::int64_t w, std::int64_t r, const ir::ExprPtr& phase) {
  if (at.unit() == 1) return at.key_is({.segment = w, .rate = r, .phase = phase, .negated = false});
  return at.condition(ir::apply(ir::Op::equal, {residue(at.key(), w, r), modulo(phase, r)}));
}

Conjunction queries_of_rate(const Context& at, std::int64_t w, std::int64_t r, const ir::ExprPtr& phase) {
  if (at.unit() == 1) return at.query_is({.segment = w, .rate = r, .phase = phase, .negated = false});
  return at.condition(ir::apply(ir::Op::equal, {residue(at.query(), w, r), modulo(phase, r)}));
}

Dnf dilated(const Set& set, const Context& at) {
  const std::int64_t w = arg(set, 0), r = arg(set, 1);
  const Conjunction keys = all_of(at.same_segment(w), keys_of_rate(at, w, r, set.expr));
  if (set.all_queries) return {keys};
  return {all_of(keys, queries_of_rate(at, w, r, set.expr))};
}

Dnf strided(const Set& set, const Context& at) { return {keys_of_rate(at, 0, arg(set, 0), ir::constant(arg(set, 1)))}; }

Dnf lag(const Set& set, const Context& at) { return {at.key_modulo(arg(set, 0))}; }

Dnf first_keys(const Set& set, const Context& at) { return {at.key_below(arg(set, 0))}; }

Dnf global(const Set& set, const Context& at) { return {at.key_below(arg(set, 0)), at.query_below(arg(set, 0))}; }

Dnf lengths(const Set& set, const Context& at) {
  if (at.unit() == 1) {
    const Bound t{.kind = Bound::Kind::input, .a = set.input, .b = 0, .add = 0};
    return {all_of(at.key_below(t), at.query_below(t))};
  }
  const auto below = [&](const ir::ExprPtr& position) {
    return at.condition(ir::apply(ir::Op::less, {position, at.element(set.input, {})}));
  };
  return {all_of(below(at.key()), below(at.query()))};
}

Dnf document(const Set& set, const Context& at) {
  return {at.equal(at.element(set.input, {at.query()}), at.element(set.input, {at.key()}))};
}

Dnf table(const Set& set, const Context& at) {
  const ir::ExprPtr entry = at.element(set.input, {at.query(), at.key()});
  return {at.condition(ir::apply(ir::Op::not_equal, {entry, ir::constant(0)}))};
}

Dnf random(const Set& set, const Context& at) {
  return {at.listed({.kind = ir::List::Kind::random, .count = arg(set, 0), .seed = set.args[1]})};
}

Dnf top(const Set& set, const Context& at) {
  return {at.listed({.kind = ir::List::Kind::top, .count = arg(set, 0), .input = set.input, .causal = set.causal_top})};
}

/// Semantics section 9: which tokens a rank owns.
Dnf owned(const Set& set, const Context& at) {
  const std::int64_t ranks = set.args[0];
  const std::int64_t rank = set.args[1];
  const bool key = set.kind == SetKind::own_key;
  const auto piece = [&](std::int64_t pieces, std::int64_t index) {
    const Bound from = part(pieces, index);
    const Bound to = part(pieces, index + 1);
    return key ? all_of(at.key_from(from), at.key_below(to)) : all_of(at.query_from(from), at.query_below(to));
  };
  switch (set.layout) {
    case ir::RingLayout::contiguous:
      return {piece(ranks, rank)};
    case ir::RingLayout::zigzag:
      return {piece(2 * ranks, rank), piece(2 * ranks, 2 * ranks - 1 - rank)};
    case ir::RingLayout::striped:
    case ir::RingLayout::automatic:  // no set has it
      break;
  }
  const ir::Congruence c{.segment = 0, .rate = ranks, .phase = ir::constant(rank), .negated = false};
  if (key) return {at.key_is(c)};
  return {at.query_is(c)};
}

// Under their own names in the table: kinds that share a function, and those that the normalizer walks itself.
constexpr Primitive sink = first_keys, prefix = first_keys;
constexpr Primitive all = nullptr, blocks = nullptr, where = nullptr;

}  // namespace

Primitive find_primitive(SetKind kind) {
#define WEFT_SET(name, ...) \
  if (kind == SetKind::name) return name;
#include "dsl/sets.def"
  return kind == SetKind::own_query || kind == SetKind::own_key ? owned : nullptr;
}

}  // namespace weft::planner
