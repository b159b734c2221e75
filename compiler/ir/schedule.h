#pragma once

#include "compiler/ir/tables.h"
#include "compiler/ir/tensor.h"

#include <cstdint>
#include <functional>
#include <vector>

/// The walk that a plan prescribes, as plain C++: which rows a tile holds and which streamed rows it
/// visits, tile by tile. Kernels emit this same algorithm; interpreters, the cost model and `explain`
/// call it. Everything is O(ranges) a tile, whatever the length.
namespace weft::ir {

/// Run-time facts a schedule needs. For `stationary: key` the caller swaps the two sides.
struct Extent {
  std::int64_t x_begin = 0, x_end = 0;  ///< positions of the stationary side
  std::int64_t y_begin = 0, y_end = 0;  ///< positions of the streamed side
  std::int64_t tokens = 0;              ///< n of ring ownership
  std::int64_t b = 0;
  const std::vector<Tensor>* inputs = nullptr;
};

/// x = query for `query`, key for `key`.
Extent extent_of(const Shape& shape, std::int64_t b, Stationary stationary, const std::vector<Tensor>* inputs);

/// Tiles of one head: numbers 0 .. tile_count - 1; some hold no row.
std::int64_t tile_count(const Phase& phase, const HeadTable& head, const Extent& extent);

/// Rows of one tile, ascending.
struct TileRows {
  std::vector<std::int64_t> x;
  std::vector<std::uint64_t> bits;
};
void rows_of_tile(const Phase& phase, const PhaseTable& table, const HeadTable& head, const Extent& extent,
                  std::int64_t tile, TileRows& out);

/// A stretch of y in which the same terms matter. `full`: every row keeps every y that a term hits.
struct Zone {
  std::int64_t lo = 0, hi = 0;
  bool full = false;
  std::vector<int> terms;
};

/// Zones of one pass in ascending order, disjoint; what is between them is kept by no row.
void zones_of_tile(const PassTable& pass, const TileRows& rows, const Extent& extent, std::vector<Zone>& out);

/// Per row: the interval of a term, empty (lo >= hi) when the row fails the term's conditions.
struct RowInterval {
  std::int64_t lo, hi;
};
RowInterval interval_of_row(const Term& term, std::int64_t x, std::uint64_t bits, const Extent& extent);

/// One y of a zone and the terms that hit it.
struct Hit {
  std::int64_t y;
  const std::vector<int>* terms;  ///< indices into the pass's terms, ascending
};
/// Every y of the zone that at least one of its terms hits, ascending.
void for_each_hit(const PassTable& pass, const Zone& zone, const std::function<void(const Hit&)>& visit);

std::int64_t value_of(const Bound& bound, std::int64_t x, const Extent& extent);

}  // namespace weft::ir
