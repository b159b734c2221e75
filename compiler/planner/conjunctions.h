#pragma once

#include "compiler/planner/passes.h"

#include <optional>
#include <vector>

/// The algebra that sets are lowered to: unions of conjunctions of conditions on heads, half-lines, congruences, row
/// conditions and conditions on pairs.
namespace weft::planner {

/// A union of conjunctions; empty: keeps nothing.
using Dnf = std::vector<Conjunction>;

// Literals: conjunctions of one member.
Conjunction at_least(ir::Bound e);
Conjunction below(ir::Bound e);
Conjunction row_is(ir::Bound e, bool is_below);
Conjunction congruent(ir::Congruence c, bool on_x);
/// A truth over h and H.
Conjunction on_heads(ir::ExprPtr holds);
Conjunction pair_is(ir::PredicateUse use);

// Bounds.
ir::Bound row(std::int64_t add);
ir::Bound number(std::int64_t value);
ir::Bound segment(std::int64_t w, std::int64_t add);
ir::Bound part(std::int64_t pieces, std::int64_t index);

/// Both at once; false when that plainly keeps nothing. Bounds that follow from others are dropped.
bool meet(const Conjunction& a, const Conjunction& b, Conjunction& out);
/// Two literals that do not contradict each other, at once.
Conjunction all_of(const Conjunction& a, const Conjunction& b);
/// Union without conjunctions that another one includes.
Dnf unite(Dnf a, const Dnf& b);
/// Intersection, and complement; nothing when more than `most` conjunctions come of it.
std::optional<Dnf> both(const Dnf& a, const Dnf& b, std::size_t most);
std::optional<Dnf> opposite(const Dnf& pieces, std::size_t most);

}  // namespace weft::planner
