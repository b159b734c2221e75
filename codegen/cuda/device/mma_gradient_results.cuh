#pragma once

#include "codegen/cuda/device/mma_gradient_attend.cuh"

/// Of part kPart of what is summed up: see each_of_sums.
template <bool kOut, int kPart, typename Use>
__device__ __forceinline__ void each_gradient(Shared& s, State& st, const Tile& t, const Use& use) {
  each_of_sums<kOut, kDimOf<kPart>>(s, part_of<kPart>(st), t, use);
}

/// See simt_gradient_results.cuh.
template <typename Pairs>
__device__ __forceinline__ void find_deltas(const weft_args& a, Shared& s, const Views& views, const Tile& t, int zones,
                                            int softmax) {
  Deltas deltas;
  deltas.softmax = softmax;
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) deltas.e[i] = deltas.l[i] = 0;
  attend<Pairs>(a, s, deltas, views, t, zones);
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) {
      deltas.e[i] += __shfl_xor_sync(0xFFFFFFFFu, deltas.e[i], apart);
      deltas.l[i] += __shfl_xor_sync(0xFFFFFFFFu, deltas.l[i], apart);
    }
    const int row = row_of(i);
    if (threadIdx.x % 4 != 0) continue;
    if (!is_computed(t, row)) continue;
    float2* const at = terms_at(a, softmax, t.b, t.h, row_in_memory(s, t, row));
    float2 terms = load_written<float2>(at);
    // fault(delta_of_all_branches_of_fragments) leaves this out
    if (deltas.l[i] > 0) terms.y += deltas.e[i] / deltas.l[i];
    store_global(at, terms);
    put(s.terms[row], make_float2(terms.x, terms.y * scale_of_gradients(a, t.b, t.h)));
  }
  __syncthreads();
}
