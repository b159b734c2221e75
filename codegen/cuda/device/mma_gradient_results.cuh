#pragma once

#include "codegen/cuda/device/mma_gradient_attend.cuh"

/// Of part kPart of what is summed up: see each_of_sums.
template <bool kOut, int kPart, typename Place, typename Use>
__device__ __forceinline__ void each_gradient(Shared& s, State& st, const Tile& t, const Place& place, const Use& use) {
  each_of_sums<kOut, kDimOf<kPart>>(s, part_of<kPart>(st), t, place, use);
}

/// Of softmax number `softmax` of the tile's rows: see gradient_deltas.cuh.
template <typename Pairs>
__device__ __forceinline__ void find_deltas(const weft_args& a, Shared& s, const Views& views, const Tile& t, int zones,
                                            int softmax) {
  Deltas deltas = no_deltas(softmax);
  attend<Pairs>(a, s, deltas, views, t, zones);
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) {
      deltas.e[i] += __shfl_xor_sync(0xFFFFFFFFu, deltas.e[i], apart);
      deltas.l[i] += __shfl_xor_sync(0xFFFFFFFFu, deltas.l[i], apart);
    }
    if (threadIdx.x % 4 == 0) take_delta(a, s, t, softmax, row_of(i), deltas.e[i], deltas.l[i]);
  }
  __syncthreads();
}
