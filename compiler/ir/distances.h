#pragma once

#include "compiler/ir/interval.h"
#include "compiler/ir/pattern.h"

/// How far a key may lie behind its query: what a window says of every index that is made of both.
namespace weft::ir {

/// q - k of the pairs that the set keeps, or of more.
Interval distance_of(const Set& set);

/// Where the values of an integer expression lie, where q - k lies in `distance`, too.
Interval interval_at(const Expr& e, const Ranges& ranges, const Interval& distance);

Interval hull(const Interval& a, const Interval& b);

}  // namespace weft::ir
