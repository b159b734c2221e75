#pragma once

#include "codegen/cuda/device/simt_gradient_inputs.cuh"

/// What a tile of queries adds to the gradients of inputs: of each pair what its score read, and of each row what its sink
/// did. See input_sums.cuh.
template <typename Pairs, typename Elements>
__device__ __forceinline__ void sum_up_gradients(const weft_args& a, Shared& s, const i64* head) {
  const Tile& tile = s.tile;
  if (get(tile.key_begin) >= get(tile.key_end)) return;
  const Views views = open_views(a, s, tile);
  InputSums<Elements> sums;
#pragma unroll
  for (int i = 0; i < Elements::kCount; ++i) sums.of[i] = open_element(a, Elements::input(i));
  const int count = softmaxes(a);
#pragma unroll 1
  for (int n = 0; n < count; ++n) {
    const int zones = make_zones(a, s, tile, a.tables + word(head + kPassesAt + n));
    load_row_terms(a, s, tile, n);
    __syncthreads();
    sums.softmax = n;
    if constexpr (Elements::kOfSink < Elements::kCount) attend<Pairs>(a, s, sums, views, tile, zones);
    __syncthreads();
  }
  // The sink is a term of the LSE, so it takes its part of delta.
  if (Elements::kOfSink > 0 && a.phase == 0 && is_computed(tile, threadIdx.x)) {
    const float2 terms = get(s.terms[threadIdx.x]);
    const float weight = exp2_approx(sink_logit(a, tile.h) * 1.44269504088896341f - terms.x);
#pragma unroll
    for (int i = Elements::kCount - Elements::kOfSink; i < Elements::kCount; ++i) {
      if (a.input_sums[Elements::input(i)] == nullptr) continue;
      const float by = -weight * terms.y * Elements::slope(a, tile, i, 0, 0, 0);
      add_to_input(a, sums.of[i], Elements::place(a, tile, i, 0, 0), by);
    }
  }
#pragma unroll
  for (int i = 0; i < Elements::kCount; ++i) close_element(a, sums.of[i]);
}
