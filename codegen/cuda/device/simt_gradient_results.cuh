#pragma once

#include "codegen/cuda/device/simt_attend.cuh"

/// Of part kPart of what is summed up: see each_sum_of_values.
template <bool kOut, int kPart, typename Use>
__device__ __forceinline__ void each_gradient(Shared& s, State& st, const Tile& t, const Use& use) {
  each_sum_of_values<kOut, kDimOf<kPart>>(s, st.of[kPart], t, use);
}

/// Of softmax number `softmax` of the tile's rows: delta is rowsum(P dP) / rowsum(P) - dLSE, where weft_terms left what is
/// known already. To memory, for the pass of dK and dV, and to s.terms.
template <typename Pairs>
__device__ __forceinline__ void find_deltas(const weft_args& a, Shared& s, const Views& views, const Tile& t, int zones,
                                            int softmax) {
  Deltas deltas;
  deltas.softmax = softmax;
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) deltas.e[r] = deltas.l[r] = 0;
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
    float2 terms = get(s.terms[threadIdx.x]);
    // fault(delta_of_all_branches) leaves this out
    if (l > 0) terms.y += e / l;
    put(s.terms[threadIdx.x], terms);
    if (is_computed(t, threadIdx.x))
      store_global(terms_at(a, softmax, t.b, t.h, row_in_memory(s, t, threadIdx.x)), terms);
  }
  __syncthreads();
}
