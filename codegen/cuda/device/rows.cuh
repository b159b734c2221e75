#pragma once

#include "codegen/cuda/device/block.cuh"

// Which rows a tile holds: see compiler/walk/rows.h and words.h. Thread r < kRows makes row r.

/// Heads that share K and V may stand in one tile, position by position, where all their rows fit: how many, …
__device__ __forceinline__ unsigned heads_of_tile(const weft_args& a) {
  return kSharesTiles ? (unsigned)a.heads_per_tile : 1;
}
/// … and which of them row r of the tile belongs to, counted from the tile's own.
__device__ __forceinline__ int head_of_row(const Shared& s, int r) { return kSharesTiles ? get(s.head[r]) : 0; }
/// Its number among the sequence's rows.
__device__ __forceinline__ int sequence_row(Shared& s, const Tile& t, int r) { return get(s.x[r]) - t.offset; }
__device__ __forceinline__ int first_position_of_tile(const Shared& s) { return get(s.x[0]); }
/// Does the launch compute row r of the tile? Of a slice of the sequence it computes some, and none behind the last.
__device__ __forceinline__ bool is_computed(const Tile& t, int r) { return r >= t.from && r < t.to; }
/// That of row r, or of the nearest that is computed.
__device__ __forceinline__ int row_in_memory(Shared& s, const Tile& t, int r) {
  // fault(row_of_another_tile) instead: return sequence_row(s, t, min(max(r, t.from), t.to - 1)) + 128;
  return sequence_row(s, t, min(max(r, t.from), t.to - 1));
}

struct Row {
  int x;
  u64 bits;
  bool valid;
};

/// Row j of a class is cell start + lcm * (j / residues) + residue[j % residues].
__device__ __forceinline__ Row row_of_class(const weft_args& a, const Tile& t, const i64* head, int rows_of_sequence,
                                            int tile, bool descending) {
  const i64 cell = word(head + kCell);
  const int per_cell = (int)word(head + kTilesPerCell), period = (int)word(head + kPeriod);
  const int number = quotient((unsigned)tile, per_cell);
  // Of a cell before the first or behind the last no row is valid.
  const int c = floor_div(descending ? t.offset + rows_of_sequence - 1 : t.offset, cell) +
                (descending ? -number : number);
  const i64* const cells = a.tables + word(head + kCellsAt);
  const i64* const table = a.tables + word(cells + floor_mod(c, period));
  int in_cell = tile - number * per_cell;
  if (in_cell >= word(table + kCellTiles)) return {0, 0, false};
  const i64* entry = table + kCellClassesAt;
  const i64* of = a.tables + word(entry);
#pragma unroll 1
  for (int tiles = (int)word(of + kClassTiles); in_cell >= tiles; tiles = (int)word(of + kClassTiles)) {
    in_cell -= tiles;
    of = a.tables + word(++entry);
  }
  const int residues = (int)word(of + kClassResidues);
  const int j = in_cell * kRows + (int)threadIdx.x;
  const int turn = quotient((unsigned)j, residues);
  const i64* const residue = of + kClassAt + (j - turn * residues);
  const i64 x = c * cell + (i64)(int)word(head + kLcm) * turn + word(residue);
  const bool valid = j < word(of + kClassRows) && x >= t.offset && x < t.offset + rows_of_sequence;
  return {clamp_to_int(x), (u64)word(residue + residues), valid};
}

/// Bits that the class of a row does not tell.
__device__ __forceinline__ u64 further_bits(const weft_args& a, const i64* head, int x, int from) {
  u64 bits = 0;
  const i64* const table = a.tables + word(head + kRowBitsAt);
#pragma unroll 1
  for (int i = from; i < (int)word(head + kRowBits); ++i) {
    const i64 segment = word(table + 3 * i);
    i64 rest = segment > 0 ? floor_mod(x, segment) : x;
    rest = floor_mod((int)rest, word(table + 3 * i + 1));
    if (rest == word(table + 3 * i + 2)) bits |= u64(1) << i;
  }
  return bits;
}

/// AND and OR of the bits of all rows, which s.bits has behind a barrier: each warp looks at all of them.
__device__ __forceinline__ void gather_bits(Shared& s, Tile& t) {
  t.every = ~u64(0);
  t.any = 0;
#pragma unroll 1
  for (int r = (int)threadIdx.x % 32; kHasRowBits && r < t.count; r += 32) {
    const u64 bits = get(s.bits[r]);
    t.every &= bits;
    t.any |= bits;
  }
  if (!kHasRowBits) return;
  t.every = over_lanes<32>(t.every, [](u64 x, u64 y) { return x & y; });
  t.any = over_lanes<32>(t.any, [](u64 x, u64 y) { return x | y; });
}

/// Rows of a class: those that lie before row 0 or behind the last are none, and the others are put in one piece.
__device__ __forceinline__ void make_rows_of_class(const weft_args& a, Shared& s, Tile& t, const i64* head,
                                                   int rows_of_sequence, int tile, bool descending) {
  Row row = {0, 0, false};
  if (threadIdx.x < kRows) row = row_of_class(a, t, head, rows_of_sequence, tile, descending);
  const int before = __syncthreads_count(threadIdx.x < kRows && !row.valid && row.x < t.offset);
  t.count = __syncthreads_count(row.valid);
  t.from = __syncthreads_count(row.valid && row.x - t.offset < first_row(a));
  t.to = __syncthreads_count(row.valid && row.x - t.offset < end_of_rows(a));
  const int at = (int)threadIdx.x - before;
  if (row.valid) {
    put(s.x[at], row.x);
    if (kHasRowBits) put(s.bits[at], row.bits | further_bits(a, head, row.x, (int)word(head + kClassBits)));
  }
  __syncthreads();
  if (t.from == t.to) return;
  const int first = first_position_of_tile(s), apart = get(s.x[min(1, t.count - 1)]) - first;
  t.last = get(s.x[t.count - 1]);
  gather_bits(s, t);
  if (threadIdx.x >= t.count && threadIdx.x < kRows) {
    put(s.x[threadIdx.x], t.last);
    if (kHasRowBits) put(s.bits[threadIdx.x], get(s.bits[t.count - 1]));
  }
  // fault(rows_taken_to_lie_evenly) value: true
  const bool even = !row.valid || row.x == first + at * apart;
  t.apart = __syncthreads_and(even) ? apart : 0;
}

/// Rows one behind the other, or those of several heads position by position: what a tile has of them is known without
/// a look at each.
__device__ __forceinline__ void make_contiguous_rows(const weft_args& a, Shared& s, Tile& t, const i64* head,
                                                     int rows_of_sequence, int tile, bool descending) {
  const unsigned heads = heads_of_tile(a), thread = thread_anew();
  const int rows = rows_of_sequence * (int)heads, total = (int)(((unsigned)rows + kRows - 1) / kRows);
  const int first = (descending ? total - 1 - tile : tile) * kRows;
  const int from = min(first_row(a), rows_of_sequence) * (int)heads;
  const int to = min(end_of_rows(a), rows_of_sequence) * (int)heads;
  t.count = tile < total ? min(rows - first, kRows) : 0;
  t.from = min(max(from - first, 0), t.count);
  t.to = min(max(to - first, 0), t.count);
  if (t.from == t.to) return;
  t.apart = heads == 1 ? 1 : 0;
  // Those of several heads are all in the tile.
  t.last = t.offset + (heads == 1 ? first + t.count : rows_of_sequence) - 1;
  if (thread < kRows) {
    const int row = kSharesTiles ? divided((int)thread, a.of_heads) : (int)thread;
    const int x = min(t.offset + first + row, t.last);
    put(s.x[thread], x);
    if (kHasRowBits) put(s.bits[thread], further_bits(a, head, x, 0));
    if (kSharesTiles) put(s.head[thread], (unsigned char)(thread - (unsigned)row * heads));
  }
  if (kHasRowBits || kConditions > 0) __syncthreads();  // else the caller's next barrier is soon enough
  gather_bits(s, t);
}

/// Fills s.x, s.head and s.bits and the tile's facts, of which a tile without a row has from and to, the same. Rows behind
/// the last repeat it, so that they neither widen an interval nor need a mask. They are there behind a barrier.
__device__ __forceinline__ void make_rows(const weft_args& a, Shared& s, Tile& t, const i64* head, int rows_of_sequence,
                                          int tile, bool descending) {
  if (kHasClasses && word(head + kCell) != 0) {
    make_rows_of_class(a, s, t, head, rows_of_sequence, tile, descending);
  } else {
    make_contiguous_rows(a, s, t, head, rows_of_sequence, tile, descending);
  }
}

/// Calls use(row of the tile, place(row)) for every kStep-th row from `row` to before `end`, where rows lie evenly and
/// places as rows do: they are found for two of them. Row end - 1 is there.
template <int kStep, int kAtOnce, typename Place, typename Use>
__device__ __forceinline__ void each_even_place(int row, int end, const Place& place, const Use& use) {
  auto at = place(min(row, end - 1));
  // fault(places_by_the_next_row) value: (u64)place(min(row + 1, end - 1)) - (u64)at
  const u64 apart = (u64)place(min(row + kStep, end - 1)) - (u64)at;
#pragma unroll(kAtOnce)
  for (; row < end; row += kStep) {
    use(row, at);
    at = (decltype(at))((u64)at + apart);
  }
}
