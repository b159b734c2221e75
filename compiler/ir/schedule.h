#pragma once

#include "compiler/ir/predicates.h"
#include "compiler/ir/tables.h"
#include "compiler/ir/tensor.h"
#include "compiler/walk/rows.h"
#include "compiler/walk/terms.h"

#include <cstdint>
#include <functional>
#include <vector>

/// The walk that a plan prescribes (compiler/walk), for those that compute no attention by it: interpreters, the cost
/// model, `explain` and `draw`. Everything is O(ranges) a tile, whatever the length.
namespace weft::ir {

/// Run-time facts a schedule needs. For `stationary: key` the caller swaps the two sides.
struct Extent {
  std::int64_t x_begin = 0, x_end = 0;  ///< positions of the stationary side
  std::int64_t y_begin = 0, y_end = 0;  ///< positions of the streamed side
  std::int64_t tokens = 0;              ///< n of ring ownership
  std::int64_t b = 0;
  const std::vector<Tensor>* inputs = nullptr;
  const std::vector<std::int64_t>* words = nullptr;  ///< of the tables; nobody asks where only bounds of ranges count
  std::int64_t h = 0;                                ///< read by conditions on pairs
  Stationary stationary = Stationary::query;         ///< which of q and k is x
  const PairValues* pairs = nullptr;                 ///< of plans with conditions on pairs or forms
};

/// x = query for `query`, key for `key`.
Extent extent_of(const Shape& shape, std::int64_t b, Stationary stationary, const std::vector<Tensor>* inputs,
                 const Tables* tables = nullptr);

/// Tiles of one head: numbers 0 .. tile_count - 1; some hold no row.
std::int64_t tile_count(const Phase& phase, const HeadTable& head, const Extent& extent);

/// Of those the numbers that hold rows of a slice, from `begin` up to, without it, `end`; some hold none.
walk::TileRange tiles_of_rows(const Phase& phase, const HeadTable& head, const Extent& extent, std::int64_t begin,
                              std::int64_t end);

/// Rows further apart in what they say to a condition than this are not told apart: its keys are then masked, not
/// filtered.
inline constexpr std::size_t kMostRuns = 8;

/// What the rows of a tile say to one of the plan's conditions on pairs: of a condition on the row alone, whether any
/// row meets it, and whether any does not; of others, runs of neighbouring rows that agree on its row parts. One run:
/// the condition filters keys, and masks nothing.
struct TilePredicate : walk::Said {
  std::vector<std::int64_t> run_rows;  ///< one of each run; empty if there are more than kMostRuns
  /// What each row says, so that pairs need not ask: does it meet a condition on the row alone (1) or not (0)? And an
  /// interval's bounds.
  std::vector<std::int64_t> row_meets, row_lo, row_hi;
};

/// Rows of one tile, ascending.
struct TileRows {
  std::vector<std::int64_t> x;
  std::vector<std::uint64_t> bits;
  std::vector<TilePredicate> predicates;  ///< by number
};
void rows_of_tile(const Phase& phase, const HeadTable& head, const Extent& extent, std::int64_t tile, TileRows& out);

/// A stretch of y in which the same terms matter. `full`: every row keeps every y that a term hits.
struct Zone {
  std::int64_t lo = 0, hi = 0;
  bool full = false;
  std::vector<int> terms;
};

/// Zones of one pass in ascending order, disjoint; what is between them is kept by no row.
void zones_of_tile(const PassTable& pass, const TileRows& rows, const Extent& extent, std::vector<Zone>& out);

/// Does the term hit y in this tile? What is left to do for each pair is `weight_of`.
bool passes_filters(const Term& term, const TileRows& rows, const Extent& extent, std::int64_t y);

/// The step that the term's keys are walked by: its own, or that of a lag on which all rows agree.
std::int64_t step_of(const Term& term, const TileRows& rows, const Extent& extent);

/// Per row: the interval of a term, empty (lo >= hi) when the row fails the term's conditions.
walk::Interval interval_of_row(const Term& term, std::int64_t x, std::uint64_t bits, const Extent& extent);

/// One y of a zone and the terms that hit it.
struct Hit {
  std::int64_t y;
  const std::vector<int>* terms;  ///< indices into the pass's terms, ascending
};
/// Every y of the zone that at least one of its terms hits, ascending.
void for_each_hit(const PassTable& pass, const Zone& zone, const TileRows& rows, const Extent& extent,
                  const std::function<void(const Hit&)>& visit);

/// Branches among the hitting terms that keep y for row number r of the tile; each counts once.
int weight_of(const PassTable& pass, const Hit& hit, bool full, const TileRows& rows, std::size_t r,
              const Extent& extent);

std::int64_t value_of(const Bound& bound, std::int64_t x, const Extent& extent);

}  // namespace weft::ir
