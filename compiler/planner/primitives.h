#pragma once

#include "compiler/planner/conjunctions.h"

/// What each built-in set means in half-lines and congruences. To add a set: a function and a row in primitives.cpp.
namespace weft::planner {

/// Which side is streamed: keys (x = query), or queries (the transposed relation).
class Side {
 public:
  explicit Side(ir::Stationary stationary) : transposed_(stationary == ir::Stationary::key) {}

  // Conditions on the key and on the query, whichever of them is streamed.
  Conjunction key_below(ir::Bound e) const { return transposed_ ? row_is(e, true) : below(e); }
  Conjunction key_from(ir::Bound e) const { return transposed_ ? row_is(e, false) : at_least(e); }
  Conjunction query_below(ir::Bound e) const { return transposed_ ? below(e) : row_is(e, true); }
  Conjunction query_from(ir::Bound e) const { return transposed_ ? at_least(e) : row_is(e, false); }
  Conjunction key_is(ir::Congruence c) const { return congruent(std::move(c), transposed_); }
  Conjunction query_is(ir::Congruence c) const { return congruent(std::move(c), !transposed_); }
  /// k <= q + c, and q - a <= k. Transposed: q >= k - c, and q <= k + a.
  Conjunction key_at_most(std::int64_t c) const { return transposed_ ? at_least(row(-c)) : below(row(c + 1)); }
  Conjunction key_within(std::int64_t a) const { return transposed_ ? below(row(a + 1)) : at_least(row(-a)); }

 private:
  static Conjunction congruent(ir::Congruence c, bool on_x) {
    Conjunction out;
    (on_x ? out.x : out.y).push_back(std::move(c));
    return out;
  }
  bool transposed_;
};

/// The set as a union of conjunctions; null for kinds that are not bounded this way.
using Primitive = Dnf (*)(const ir::Set& set, const Side& side);
Primitive find_primitive(ir::SetKind kind);

}  // namespace weft::planner
