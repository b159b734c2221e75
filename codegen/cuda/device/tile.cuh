#pragma once

#include "codegen/cuda/device/keys.cuh"

// One tile of rows, from its number to what it says of itself.

/// Which (batch entry, head) and which tile of it the block computes; its rows. False when it has none. The tile's facts
/// go to s.tile: registers are dear, and few ask for them while products are summed up.
__device__ __forceinline__ bool open_tile(const weft_args& a, Shared& s, const i64*& head) {
  Tile t;
  const int number = (int)a.tile_begin + (int)blockIdx.x;  // the launch has fewer than 2^31
  const int head_number = number / (int)a.tiles_per_head;
  t.b = head_number / (int)a.heads;
  t.h = head_number - t.b * (int)a.heads;
  t.offset = first_position(a, t.b);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      if ((kLengths >> i & 1) == 0) continue;
      const int* const data = (const int*)a.inputs[i].data;
      put(s.inputs[i], load_global<int>(data + times(t.b, a.inputs[i].strides[0])));
    }
  }
  const i64* const phase = a.tables + word(a.tables + 1 + a.phase);
  head = a.tables + word(phase + 2 + t.h);
  make_rows(a, s, t, head, number - head_number * (int)a.tiles_per_head, word(phase + 1) != 0);
  if (t.count == 0) return false;
  if (kConditions > 0) describe_conditions(a, s, t);
  if (threadIdx.x == 0) s.tile = t;
  __syncthreads();
  return true;
}

/// A copy in registers of what shared memory keeps; behind a barrier.
__device__ __forceinline__ Tile tile_of(const Shared& s) { return s.tile; }
