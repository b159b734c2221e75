#pragma once

#include "codegen/cuda/device/simt_columns.cuh"
#include "codegen/cuda/device/simt_softmax.cuh"

// How plain lanes hold the state of rows: see results.cuh.

/// Adds up over a row's lanes. From here on s.sums[row] is the row's.
__device__ __forceinline__ void close_sums(Shared& s, State&) {
  OfRows l;
  load_sums(s, l);
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) l[r] = sum_of_row(l[r]);
  __syncthreads();
  if (lane_of_row() == 0) {
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) put(s.sums[warp_of_columns() * kRows + row_of(r)], l[r]);
  }
  __syncthreads();
  if constexpr (kColumnWarps > 1) {
    if (threadIdx.x < kRows) put(s.sums[threadIdx.x], get(s.sums[threadIdx.x]) + get(s.sums[kRows + threadIdx.x]));
    __syncthreads();
  }
}

/// Multiplies O of every row by use(row, m, l), which may change m and l; behind close_sums.
template <typename Use>
__device__ __forceinline__ void scale_rows(Shared& s, State& st, const Use& use) {
  const int row = threadIdx.x;
  __syncthreads();
  if (row < kRows) {
    float m = get(s.maxima[row]), l = get(s.sums[row]);
    store_shared(&s.weights[row], use(row, m, l));
    put(s.maxima[row], m);
    put(s.sums[row], l);
  }
  // fault(barrier_behind_sinks) leaves this out
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const float by = load_shared<float>(&s.weights[row_of(r)]);
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) st.o[r][c] *= by;
  }
}

/// Calls use(row of the tile, m, l) in one lane for each row; behind close_sums.
template <typename Use>
__device__ __forceinline__ void each_sum(Shared& s, const State&, const Tile& t, const Use& use) {
  const int row = threadIdx.x;
  if (is_computed(t, row)) use(row, get(s.maxima[row]), get(s.sums[row]));
}

/// use(row of the tile, m, l) says a row's m and l.
template <typename Use>
__device__ __forceinline__ void set_sums(Shared& s, State&, const Tile& t, const Use& use) {
  OfRows m = {}, l = {};
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    if (is_computed(t, row_of(r))) use(row_of(r), m[r], l[r]);
    if (lane_of_row() != 0 || warp_of_columns() != 0) l[r] = 0;  // each lane has a share of it
  }
  store_maxima(s, m);
  store_sums(s, l);
  sync_rows();
}

/// See each_sum_of_values.
template <bool kOut, typename Place, typename Use>
__device__ __forceinline__ void each_result(Shared& s, State& st, const Tile& t, const Place& place, const Use& use) {
  each_sum_of_values<kOut, kDimV>(s, st.o, t, place, use);
}
