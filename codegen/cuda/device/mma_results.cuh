#pragma once

#include "codegen/cuda/device/mma_products.cuh"

// How fragments of matrix instructions hold the state of rows: see results.cuh.

__device__ __forceinline__ float* result_row(Shared& s, int row) { return (float*)s.bytes + row * kResultFloats; }

constexpr int kPartTiles = kColumnTiles / kResultParts;

/// The thread's pair of columns of tile c of a part, in its row i.
__device__ __forceinline__ float* result_at(Shared& s, int i, int c) {
  return result_row(s, row_of(i)) + c * 8 + threadIdx.x % 4 * 2;
}

/// A part of the results goes there, or comes from there.
template <bool kOut>
__device__ __forceinline__ void move_part(Shared& s, State& st, int part) {
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
    for (int c = 0; c < kPartTiles; ++c) {
      float* const o = &st.o[i / 2][part * kPartTiles + c][i % 2 * 2];
      if (kOut) {
        store_shared(result_at(s, i, c), make_float2(o[0], o[1]));
      } else {
        const float2 come = load_shared<float2>(result_at(s, i, c));
        o[0] = come.x;
        o[1] = come.y;
      }
    }
  }
  __syncthreads();
}

/// Calls use(row of the tile, column, where four values of it are) for all there are: of O as it is, or to become it. By
/// way of shared memory, because then neighbouring threads hold neighbouring columns, and the code stands here once
/// instead of once for each register.
template <bool kOut, typename Use>
__device__ __forceinline__ void each_result(Shared& s, State& st, const Tile& t, const Use& use) {
  constexpr int kFours = kPartColumns / 4;
#pragma unroll
  for (int part = 0; part < kResultParts; ++part) {
    kOut ? move_part<true>(s, st, part) : __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < t.count * kFours; i += kThreads) {
      const int row = i / kFours, in_part = i % kFours * 4, column = part * kPartColumns + in_part;
      if (column < kDimV && is_computed(t, row)) use(row, column, result_row(s, row) + in_part);
    }
    if (!kOut) move_part<false>(s, st, part);
  }
}

/// Sums over a row's four lanes; from here on `l` is the same in all of them.
__device__ __forceinline__ void close_sums(Shared&, State& st) {
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    st.l[i] += __shfl_xor_sync(0xFFFFFFFFu, st.l[i], 1);
    // fault(sum_of_half_a_rows_lanes) leaves this out
    st.l[i] += __shfl_xor_sync(0xFFFFFFFFu, st.l[i], 2);
  }
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
  if (mine < kRowsEach && is_computed(t, row)) use(row, m, l);
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
