#include "compiler/planner/primitives.h"

#include <algorithm>

namespace weft::planner {
namespace {

using ir::Bound;
using ir::Congruence;
using ir::Set;
using ir::SetKind;

/// No position comes near it, so that larger numbers of the user mean the same and nothing overflows.
constexpr std::int64_t kFar = std::int64_t{1} << 60;

std::int64_t arg(const Set& set, std::size_t i) { return std::clamp(set.args[i], -kFar, kFar); }

Conjunction same_segment(std::int64_t w) { return all_of({at_least(segment(w, 0)), below(segment(w, w))}); }

Dnf causal(const Set&, const Side& side) { return {side.key_at_most(0)}; }

Dnf window(const Set& set, const Side& side) {
  const std::int64_t a = arg(set, 0), c = arg(set, 1);
  if (a + c < 0) return {};
  return {all_of({side.key_within(a), side.key_at_most(c)})};
}

Dnf segments(const Set& set, const Side&) { return {same_segment(arg(set, 0))}; }

Dnf dilated(const Set& set, const Side& side) {
  const Congruence c{.segment = arg(set, 0), .rate = arg(set, 1), .phase = set.expr, .negated = false};
  const Conjunction keys = all_of({same_segment(c.segment), side.key_is(c)});
  return {set.all_queries ? keys : all_of({keys, side.query_is(c)})};
}

Dnf strided(const Set& set, const Side& side) {
  return {side.key_is({.segment = 0, .rate = arg(set, 0), .phase = ir::constant(arg(set, 1)), .negated = false})};
}

Dnf first_keys(const Set& set, const Side& side) { return {side.key_below(number(arg(set, 0)))}; }

Dnf global(const Set& set, const Side& side) {
  return {side.key_below(number(arg(set, 0))), side.query_below(number(arg(set, 0)))};
}

Dnf lengths(const Set& set, const Side& side) {
  const Bound t{.kind = Bound::Kind::input, .a = set.input, .b = 0, .add = 0};
  return {all_of({side.key_below(t), side.query_below(t)})};
}

/// Semantics section 9: which tokens a rank owns.
Dnf owned(const Set& set, const Side& side) {
  const std::int64_t ranks = set.args[0];
  const std::int64_t rank = set.args[1];
  const bool key = set.kind == SetKind::own_key;
  const auto piece = [&](std::int64_t pieces, std::int64_t index) {
    const Bound from = part(pieces, index);
    const Bound to = part(pieces, index + 1);
    return key ? all_of({side.key_from(from), side.key_below(to)})
               : all_of({side.query_from(from), side.query_below(to)});
  };
  switch (set.layout) {
    case ir::RingLayout::contiguous:
      return {piece(ranks, rank)};
    case ir::RingLayout::zigzag:
      return {piece(2 * ranks, rank), piece(2 * ranks, 2 * ranks - 1 - rank)};
    case ir::RingLayout::striped:
      break;
  }
  const Congruence c{.segment = 0, .rate = ranks, .phase = ir::constant(rank), .negated = false};
  return {key ? side.key_is(c) : side.query_is(c)};
}

struct Row {
  SetKind kind;
  Primitive primitive;
};

constexpr Row kPrimitives[] = {
    {SetKind::causal, causal},   {SetKind::window, window},     {SetKind::segment, segments},
    {SetKind::dilated, dilated}, {SetKind::strided, strided},   {SetKind::sink, first_keys},
    {SetKind::global, global},   {SetKind::prefix, first_keys}, {SetKind::lengths, lengths},
    {SetKind::own_query, owned}, {SetKind::own_key, owned},
};

}  // namespace

Primitive find_primitive(SetKind kind) {
  for (const auto& row : kPrimitives) {
    if (row.kind == kind) return row.primitive;
  }
  return nullptr;
}

}  // namespace weft::planner
