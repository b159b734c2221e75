#pragma once

#include "codegen/cuda/device/tile.cuh"

// The state of rows between launches: between phases, or of a chunk of keys until all are merged. Where there
// are several softmaxes, a block of threads takes one of them for its chunk.

/// Below every score but minus infinity, so that 2^(score - m) needs no care for rows without keys.
constexpr float kLowest = -3.40282347e38f;

constexpr int kCarriedFloats = kDimV + 2;  // acc, m, l

/// Of what this block of threads computes.
__device__ __forceinline__ float* carried_row(const weft_args& a, const Tile& t, int row) {
  const int head = t.b * (int)a.heads + t.h;
  if (!kCutsKeys) return a.carry + times(head, a.n_q * kCarriedFloats) + times(row, kCarriedFloats);
  const unsigned shares = shares_of_tile(a);
  const i64 of_row = (i64)(shares * kCarriedFloats);
  return a.carry + times(head, a.n_q * of_row) + times(row, of_row) + (int)(blockIdx.x % shares) * kCarriedFloats;
}
