#pragma once

#include "compiler/ring/stretches.h"

#include <optional>
#include <span>

namespace weft::ring {

/// Pairs that a term without filters keeps of some rows and keys, in closed form: what grows is the number of segments
/// only.
double pairs_of(const TermForm& term, const Run& rows, const Keys& keys = {});

/// … that some of several terms keep, each pair once. Nothing where it takes a look at rows: where keys stand in steps,
/// or rows' bounds change often.
std::optional<double> pairs_of_union(std::span<const TermForm> terms, const Run& rows, const Keys& keys = {});

/// No row of these has more pairs with a term.
double most_pairs_of_row(const TermForm& term, const Run& rows);

}  // namespace weft::ring
