#pragma once

#include "compiler/ring/stretches.h"

#include <vector>

/// Keys as a term reaches them, and as disjoint runs.
namespace weft::ring {

/// Keys of [lo, hi) that `of` has and none of `without` has.
struct Piece {
  std::int64_t lo = 0, hi = 0;
  Residue of = {};
  std::vector<Residue> without = {};
  bool operator==(const Piece&) const = default;
};

/// The keys that some of the rows reach by the term, from `lo` up to, without it, `hi`. Exact.
void add_pieces(const TermForm& term, const Run& rows, std::int64_t lo, std::int64_t hi, std::vector<Piece>& out);

/// Keys of any piece that are in none of the sorted runs of `own` and in no piece of `before`, each in one run. The
/// runs are the same on every machine: both sides of a transfer make them.
Runs disjoint(std::span<const Piece> pieces, const Runs& own, std::span<const Piece> before = {});

}  // namespace weft::ring
