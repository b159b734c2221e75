#pragma once

#include "compiler/ir/expr.h"
#include "compiler/ir/pattern.h"

#include <cstdint>
#include <optional>

/// What can be known of conditions before any length is.
namespace weft::ir {

/// Proves, from the signs of keys, heads, batch entries and lengths and from differences that contradict each other,
/// that a condition holds for no pair whatever. False says nothing.
bool never_holds(const Expr& condition);

/// The same of a set: every pair of every length is outside of it.
bool keeps_nothing(const Set& set);

/// The c of an index `q - (n_k - n_q) + c`, however it is written; nothing for any other.
std::optional<std::int64_t> beyond_own_row(const Expr& index);

}  // namespace weft::ir
