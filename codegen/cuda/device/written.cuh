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
  bool by_fours;        // four columns may be stored at once, …
  bool by_chunks;       // … and as many as 16 bytes hold
};

template <int kOfRow>
__device__ __forceinline__ Written written(const weft_view& view, const Tile& t, int head) {
  constexpr int kFour = 4 * kBytes<kStored>;
  Written to;
  to.base = (unsigned char*)origin(view, t.b, head, t.first_row);
  to.step = view.stride_n * kBytes<kStored>;
  to.head_step = kSharesTiles ? view.stride_h * kBytes<kStored> : 0;
  const auto even = [&](int bytes) {
    return (misalignment(to.base, to.step, bytes) | misalignment(to.base, to.head_step, bytes)) == 0;
  };
  to.by_fours = kOfRow % 4 == 0 && even(kFour);
  to.by_chunks = kOfRow * kBytes<kStored> % 16 == 0 && even(16);
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

/// Four columns from this one on, as far as there are so many, times `factor`; from shared memory.
template <int kOfRow>
__device__ __forceinline__ void store_four(const Written& to, unsigned char* at, int column, const float* from, float factor) {
  float4 four = load_shared<float4>(from);
  four = make_float4(four.x * factor, four.y * factor, four.z * factor, four.w * factor);
  if (to.by_fours) return store4<kStored>(at, four);
#pragma unroll 1
  for (int i = 0; i < in_four<kOfRow>(column); ++i) {
    store1<kStored>(at + i * kBytes<kStored>, four.x);
    four = make_float4(four.y, four.z, four.w, 0);
  }
}
