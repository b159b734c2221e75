#pragma once

#include "compiler/walk/portable.h"
#include "compiler/walk/words.h"

/// Which rows a tile holds. Of an environment: `word(pointer)`, `table(offset)`, and `x_begin`, `x_end`, the positions
/// that have rows.
namespace weft::walk {

/// How all tiles of a launch are cut.
struct Tiles {
  i64 rows = 0;  ///< of a tile
  bool last_first = false;
  i64 heads = 1;  ///< that stand in one tile, position by position
};

/// Tiles of one head; some hold no row.
template <typename Env>
WEFT_WALK i64 tile_count(const Env& e, const i64* head, const Tiles& tiles) {
  if (e.x_begin >= e.x_end) return 0;
  const i64 cell = e.word(head + kCell);
  if (cell == 0) return ((e.x_end - e.x_begin) * tiles.heads + tiles.rows - 1) / tiles.rows;
  return (floor_div(e.x_end - 1, cell) - floor_div(e.x_begin, cell) + 1) * e.word(head + kTilesPerCell);
}

/// Numbers of tiles of one head: those that hold positions from `begin` up to, without it, `end`, and some that hold
/// none.
struct TileRange {
  i64 first = 0, end = 0;
};
template <typename Env>
WEFT_WALK TileRange tiles_of_rows(const Env& e, const i64* head, const Tiles& tiles, i64 begin, i64 end) {
  const i64 total = tile_count(e, head, tiles), cell = e.word(head + kCell);
  if (begin >= end) return {0, 0};
  TileRange up;
  if (cell == 0) {
    up = {(begin - e.x_begin) * tiles.heads / tiles.rows, ((end - e.x_begin) * tiles.heads - 1) / tiles.rows + 1};
  } else {
    const i64 first_cell = floor_div(e.x_begin, cell), per_cell = e.word(head + kTilesPerCell);
    up = {(floor_div(begin, cell) - first_cell) * per_cell, (floor_div(end - 1, cell) - first_cell + 1) * per_cell};
  }
  if (!tiles.last_first) return up;
  return {total - up.end, total - up.first};
}

/// Bits of a row from `from` on: which of the head's congruences does it meet?
template <typename Env>
WEFT_WALK u64 row_bits(const Env& e, const i64* head, i64 x, i64 from) {
  u64 bits = 0;
  const i64* const table = e.table(e.word(head + kRowBitsAt));
  for (i64 i = from; i < e.word(head + kRowBits); ++i) {
    if (holds(e, table + 3 * i, x)) bits |= u64{1} << i;
  }
  return bits;
}

/// Rows one after the other.
template <typename Env, typename Put>
WEFT_WALK void rows_in_turn(const Env& e, const i64* head, const Tiles& tiles, i64 tile, const Put& put) {
  const i64 total = tile_count(e, head, tiles);
  if (tile >= total) return;
  const i64 first = (tiles.last_first ? total - 1 - tile : tile) * tiles.rows;
  const i64 end = least(first + tiles.rows, (e.x_end - e.x_begin) * tiles.heads);
  i64 x = e.x_begin + first / tiles.heads, of_position = first % tiles.heads;
  for (i64 row = first; row < end; ++row) {
    put(x, row_bits(e, head, x, 0));
    if (++of_position < tiles.heads) continue;
    of_position = 0;
    ++x;
  }
}

/// Rows of one class of a cell: row j is cell start + lcm * (j / residues) + residue[j % residues].
template <typename Env, typename Put>
WEFT_WALK void rows_of_class(const Env& e, const i64* head, const Tiles& tiles, i64 tile, const Put& put) {
  const i64 cell = e.word(head + kCell), per_cell = e.word(head + kTilesPerCell);
  const i64 first_cell = floor_div(e.x_begin, cell), last_cell = floor_div(e.x_end - 1, cell);
  const i64 number = tiles.last_first ? last_cell - tile / per_cell : first_cell + tile / per_cell;
  if (number < first_cell || number > last_cell) return;
  const i64* const cells = e.table(e.word(head + kCellsAt));
  const i64* const table = e.table(e.word(cells + floor_mod(number, e.word(head + kPeriod))));
  i64 in_cell = tile % per_cell;
  if (in_cell >= e.word(table + kCellTiles)) return;
  const i64* entry = table + kCellClassesAt;
  const i64* of = e.table(e.word(entry));
  while (in_cell >= e.word(of + kClassTiles)) {
    in_cell -= e.word(of + kClassTiles);
    of = e.table(e.word(++entry));
  }
  const i64 residues = e.word(of + kClassResidues), lcm = e.word(head + kLcm), start = number * cell;
  const i64* const residue = of + kClassAt;
  const auto position = [&](i64 j) { return start + lcm * (j / residues) + e.word(residue + j % residues); };
  const i64 from = in_cell * tiles.rows, to = least(from + tiles.rows, e.word(of + kClassRows));
  // A cell is as long as its largest segment: where there are few rows, most of its tiles have none of them.
  if (position(from) >= e.x_end || position(to - 1) < e.x_begin) return;
  const i64 known = e.word(head + kClassBits);
  i64 turn = start + lcm * (from / residues), r = from % residues;
  for (i64 j = from; j < to; ++j) {
    const i64 x = turn + e.word(residue + r);
    const u64 bits = static_cast<u64>(e.word(residue + residues + r));
    if (x >= e.x_begin && x < e.x_end) put(x, bits | row_bits(e, head, x, known));
    if (++r < residues) continue;
    r = 0;
    // fault(rows_of_a_class_further_apart) instead: turn += 2 * lcm;
    turn += lcm;
  }
}

/// Calls put(position, bits) for the rows of a tile, ascending.
template <typename Env, typename Put>
WEFT_WALK void rows_of_tile(const Env& e, const i64* head, const Tiles& tiles, i64 tile, const Put& put) {
  if (e.word(head + kCell) != 0) {
    rows_of_class(e, head, tiles, tile, put);
  } else {
    rows_in_turn(e, head, tiles, tile, put);
  }
}

}  // namespace weft::walk
