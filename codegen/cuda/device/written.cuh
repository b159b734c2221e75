#pragma once

#include "codegen/cuda/device/tile.cuh"

// Where a tile's rows go: those of O, or of a gradient.

/// How many of the four columns from this one on there are.
template <int kOfRow>
__device__ __forceinline__ int in_four(int column) {
  return kOfRow % 4 == 0 ? 4 : min(4, kOfRow - column);
}

struct Written {
  unsigned char* base;  // the sequence's first row
  i64 step, head_step;  // bytes between rows, and between heads that share the tile
  bool at_once;         // kStoredAtOnce columns may be
};

/// kStoredAtOnce: so many columns a lane has of a row, which its class says.
template <int kOfRow, int kStoredAtOnce>
__device__ __forceinline__ Written written(const weft_view& view, const Tile& t, int head) {
  constexpr int kBytesAtOnce = kStoredAtOnce * kBytes<kStored>;
  Written to;
  to.base = (unsigned char*)origin(view, t.b, head, t.first_row);
  to.step = view.stride_n * kBytes<kStored>;
  to.head_step = kSharesTiles ? view.stride_h * kBytes<kStored> : 0;
  const unsigned odd = misalignment(to.base, to.step, kBytesAtOnce) | misalignment(to.base, to.head_step, kBytesAtOnce);
  to.at_once = kOfRow % kStoredAtOnce == 0 && odd == 0;
  return to;
}

/// The first `count` of four numbers of shared memory to f32 that lie side by side, but not aligned; `add`ed to them, where
/// it says so.
__device__ __forceinline__ void store_floats(float* to, const float* from, int count, bool add) {
  const float4 four = load_shared<float4>(from);
  const float numbers[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) store_global(to + i, numbers[i] + (add ? load_written<float>(to + i) : 0));
  }
}
/// … and back, with zeros behind them.
__device__ __forceinline__ void load_floats(float* to, const float* from, int count) {
  float numbers[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) numbers[i] = i < count ? load_written<float>(from + i) : 0;
  store_shared(to, make_float4(numbers[0], numbers[1], numbers[2], numbers[3]));
}

/// Where row r of the tile has a column.
__device__ __forceinline__ unsigned char* place_of_columns(const Written& to, Shared& s, const Tile& t, int r,
                                                           int column) {
  const i64 of_head = times(head_of_row(s, r), to.head_step);
  return to.base + times(sequence_row(s, t, r), to.step) + of_head + column * kBytes<kStored>;
}
