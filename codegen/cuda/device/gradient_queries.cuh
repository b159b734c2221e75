#pragma once

#include "codegen/cuda/device/gradient_results.cuh"

/// dQ of a tile of queries. Where O is the sum of several softmaxes, or branches have deltas of their own, those are found
/// first, and stay in memory for the pass of dK and dV.
template <typename Pairs>
__device__ __forceinline__ void sum_up_gradients(const weft_args& a, Shared& s, const i64* head) {
  const Tile& tile = s.tile;
  const bool first = a.phase == 0, last = a.phase == kPhases - 1;
  const bool empty = get(tile.key_begin) >= get(tile.key_end);  // then nobody knows terms, or carries anything
  if (empty && !last) return;
  const Views views = open_views(a, s, tile);
  State state;
  clear(state);
  if (kPhases > 1 && !first && !empty) take_up(a, s, state);
  const int count = softmaxes(a);
#pragma unroll 1
  for (int n = 0; n < count; ++n) {
    start_tile(a, s, views, tile, n);
    const int zones = make_zones(a, s, tile, a.tables + word(head + kPassesAt + n));
    if (!empty) load_row_terms(a, s, tile, n);
    __syncthreads();
    state.softmax = n;
    if (kFindsDeltas && zones > 0) find_deltas<Pairs>(a, s, views, tile, zones, n);
    attend<Pairs>(a, s, state, views, tile, zones);
    __syncthreads();
  }
  close_gradients(a, s, state, last);
}
