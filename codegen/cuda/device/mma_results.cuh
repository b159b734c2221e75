#pragma once

#include "codegen/cuda/device/mma_columns.cuh"
#include "codegen/cuda/device/mma_gather.cuh"

// How fragments of matrix instructions hold the state of rows: see results.cuh.

/// Sums over a row's four lanes; from here on `l` is the same in all of them.
__device__ __forceinline__ void close_sums(Shared& s, State& st) {
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    st.l[i] += __shfl_xor_sync(0xFFFFFFFFu, st.l[i], 1);
    // fault(sum_of_half_a_rows_lanes) leaves this out
    st.l[i] += __shfl_xor_sync(0xFFFFFFFFu, st.l[i], 2);
  }
  if constexpr (kKeyParts > 1) gather_sums(s, st);
}

/// Multiplies O of every row by use(row, m, l), which may change m and l; behind close_sums.
template <typename Use>
__device__ __forceinline__ void scale_rows(Shared&, State& st, const Use& use) {
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    const float by = use(row_of(i), st.m[i], st.l[i]);
#pragma unroll
    for (int c = 0; c < kColumnTiles; ++c) {
      st.o[i / 2][c][i % 2 * 2] *= by;
      st.o[i / 2][c][i % 2 * 2 + 1] *= by;
    }
  }
}

/// Calls use(row of the tile, m, l) in one lane for each row; behind close_sums.
template <typename Use>
__device__ __forceinline__ void each_sum(Shared&, const State& st, const Tile& t, const Use& use) {
  const int mine = threadIdx.x % 4;  // the lanes of a row take one of their rows each
  float m = st.m[0], l = st.l[0];
#pragma unroll
  for (int i = 1; i < kRowsEach; ++i) {
    m = mine == i ? st.m[i] : m;
    l = mine == i ? st.l[i] : l;
  }
  const int row = row_of(mine);
  if (mine < kRowsEach && has_columns(0) && is_computed(t, row)) use(row, m, l);
}

/// use(row of the tile, m, l) says a row's m and l.
template <typename Use>
__device__ __forceinline__ void set_sums(Shared&, State& st, const Tile& t, const Use& use) {
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    if (is_computed(t, row_of(i))) use(row_of(i), st.m[i], st.l[i]);
    if (threadIdx.x % 4 != 0) st.l[i] = 0;  // each lane has a share of it
  }
}

/// See each_of_sums.
template <bool kOut, typename Place, typename Use>
__device__ __forceinline__ void each_result(Shared& s, State& st, const Tile& t, const Place& place, const Use& use) {
  each_of_sums<kOut, kDimV>(s, st.o, t, place, use);
}
