#pragma once

#include "codegen/cuda/device/tile.cuh"

// The state of rows between launches: between phases, or of a chunk of keys until all are merged. Where there are
// several softmaxes, a block of threads takes one of them for its chunk.

/// Below every score but minus infinity, so that 2^(score - m) needs no care for rows without keys.
constexpr float kLowest = -3.40282347e38f;

constexpr int kCarriedFloats = kDimV + 2;  // acc, m, l

/// Of row r of the tile, and of what this block of threads computes of it.
__device__ __forceinline__ float* carried_row(const weft_args& a, Shared& s, const Tile& t, int r) {
  const int head = t.b * (int)a.heads + t.h + head_of_row(s, r), row = sequence_row(s, t, r) - (int)a.row_begin;
  const i64 rows = a.carried_rows;
  if (!kCutsKeys) return a.carry + times(head, rows * kCarriedFloats) + times(row, kCarriedFloats);
  // A launch that does not cut keys keeps a state of a row for its sum of softmaxes.
  const unsigned slots = a.chunks > 0 ? (unsigned)a.chunk_slots * (unsigned)softmaxes(a) : 1;
  const i64 of_row = (i64)(slots * kCarriedFloats);
  return a.carry + times(head, rows * of_row) + times(row, of_row) +
         (int)share_of_block(a) * kCarriedFloats;
}
