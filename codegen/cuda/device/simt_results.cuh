#pragma once

#include "codegen/cuda/device/simt_products.cuh"

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

/// The thread's columns [at, at + kWide) of its rows go to shared memory, or come from there.
template <bool kOut, int kWide>
__device__ __forceinline__ void move_columns(Shared& s, State& st, int at) {
  constexpr int kWidth = 8 * kWide * kColumnWarps;
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    float* const there = &s.weights[row_of(r) * kWidth + (8 * warp_of_columns() + lane_of_row()) * kWide];
#pragma unroll
    for (int i = 0; i < kWide; i += 4) {
      float* const o = &st.o[r][at + i];
      if constexpr (kOut && kWide == 4) store_shared(there, make_float4(o[0], o[1], o[2], o[3]));
      if constexpr (kOut && kWide == 2) store_shared(there, make_float2(o[0], o[1]));
      if constexpr (kOut && kWide == 1) store_shared(there, o[0]);
      if constexpr (!kOut && kWide == 4) unpack(o, load_shared<float4>(there));
      if constexpr (!kOut && kWide == 2) {
        const float2 two = load_shared<float2>(there);
        o[0] = two.x;
        o[1] = two.y;
      }
      if constexpr (!kOut && kWide == 1) o[0] = load_shared<float>(there);
    }
  }
}

/// Columns [column, column + 8 * kWide) of every warp's.
template <bool kOut, int kWide, typename Use>
__device__ __forceinline__ void each_four(Shared& s, State& st, const Tile& t, int at, int column, const Use& use) {
  constexpr int kOfWarp = 8 * kWide, kFoursWide = kOfWarp * kColumnWarps / 4;
  __syncthreads();
  if (kOut) {
    move_columns<true, kWide>(s, st, at);
    __syncthreads();
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < kRows * kFoursWide; i += kThreads) {
    const int row = i / kFoursWide, in_row = i % kFoursWide * 4;
    const int c = column + in_row / kOfWarp * (kColumns / kColumnWarps) + in_row % kOfWarp;
    if (is_computed(t, row) && c < kDimV) use(row, c, &s.weights[4 * i]);
  }
  if (!kOut) {
    __syncthreads();
    move_columns<false, kWide>(s, st, at);
  }
}

/// Calls use(row of the tile, column, where four values of it are) for all there are: of O as it is, or to become it. By
/// way of shared memory, because then neighbouring threads hold neighbouring columns, and the code stands here once
/// instead of once for each row of a thread. Columns turn, so that it stands once for all fours.
template <bool kOut, typename Use>
__device__ __forceinline__ void each_result(Shared& s, State& st, const Tile& t, const Use& use) {
  if constexpr (kTwo) each_four<kOut, 2>(s, st, t, 4 * kFours, 32 * kFours, use);
  if constexpr (kSingle) each_four<kOut, 1>(s, st, t, kColumnsEach - 1, kColumns / kColumnWarps - 8, use);
#pragma unroll 1
  for (int g = 0; g < kFours; ++g) {
    each_four<kOut, 4>(s, st, t, 0, 32 * g, use);
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float first = st.o[r][0];
#pragma unroll
        for (int c = 1; c < 4 * kFours; ++c) st.o[r][c - 1] = st.o[r][c];
        st.o[r][4 * kFours - 1] = first;
      }
    }
  }
}
