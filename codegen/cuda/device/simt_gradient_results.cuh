#pragma once

#include "codegen/cuda/device/simt_attend.cuh"

template <int kPart>
__device__ __forceinline__ auto& part_of(State& st) {
  return st.of[kPart];
}

/// Of part kPart of what is summed up: see each_sum_of_values.
template <bool kOut, int kPart, typename Place, typename Use>
__device__ __forceinline__ void each_gradient(Shared& s, State& st, const Tile& t, const Place& place, const Use& use) {
  each_sum_of_values<kOut, kDimOf<kPart>>(s, part_of<kPart>(st), t, place, use);
}

/// Of softmax number `softmax` of the tile's rows: see gradient_deltas.cuh.
template <typename Pairs>
__device__ __forceinline__ void find_deltas(const weft_args& a, Shared& s, const Views& views, const Tile& t, int zones,
                                            int softmax) {
  Deltas deltas = no_deltas(softmax);
  attend<Pairs>(a, s, deltas, views, t, zones);
  float2* const sums = (float2*)s.weights;  // a pair a row of each of the warps that share it
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const float e = sum_of_row(deltas.e[r]), l = sum_of_row(deltas.l[r]);
    if (lane_of_row() == 0) put(sums[warp_of_columns() * kRows + row_of(r)], make_float2(e, l));
  }
  __syncthreads();
  if (threadIdx.x < kRows) {
    float e = 0, l = 0;
#pragma unroll
    for (int w = 0; w < kColumnWarps; ++w) {
      const float2 of_warp = get(sums[w * kRows + threadIdx.x]);
      e += of_warp.x;
      l += of_warp.y;
    }
    take_delta(a, s, t, softmax, threadIdx.x, e, l);
  }
  __syncthreads();
}
