#pragma once

#include "codegen/cuda/device/gradient_results.cuh"

/// Goes on to another query head that reads the tile's keys, and groups rows alike.
__device__ __forceinline__ const i64* open_head(const weft_args& a, Shared& s, int h) {
  const i64* const head = a.tables + word(a.tables + word(a.tables + 1 + a.phase) + 2 + h);
  __syncthreads();
  Tile t = tile_of(s);
  t.h = h;
  // fault(conditions_on_rows_of_another_head) leaves this out
  if (kHasRowBits && threadIdx.x < kRows) put(s.bits[threadIdx.x], further_bits(a, head, get(s.x[threadIdx.x]), 0));
  __syncthreads();
  gather_bits(s, t);
  // fault(conditions_of_the_first_head) leaves this out
  if (kConditions > 0 && !kServeAllHeads) describe_conditions(a, s, t);
  if (threadIdx.x == 0) s.tile = t;
  __syncthreads();
  return head;
}

/// dK and dV of a tile of keys: query heads one after another, so that nobody adds to what another sums up.
template <typename Pairs>
__device__ __forceinline__ void sum_up_gradients(const weft_args& a, Shared& s, const i64* head) {
  const Tile& tile = s.tile;
  State state;
  clear(state);
  const bool first = a.phase == 0 && a.group_begin == 0;
  const bool last = a.phase == kPhases - 1 && a.group_end == heads_of_group(a);
  const bool empty = get(tile.key_begin) >= get(tile.key_end);
  if (empty && !last) return;
  if (!first && !empty) take_up(a, s, state);
  // What is asked for again here need not wait in registers that the products would need.
#pragma unroll 1
  for (int g = 0; g < (int)(a.group_end - a.group_begin); ++g) {
    // fault(one_query_head_for_the_group) also: if (g > 0) break;
    if (g > 0) head = open_head(a, s, get(tile.h) + 1);
    const Views views = open_views(a, s, tile);
#pragma unroll 1
    for (int n = 0; n < softmaxes(a); ++n) {
      start_tile(a, s, views, tile, n);
      const int zones = make_zones(a, s, tile, a.tables + word(head + kPassesAt + n));
      state.softmax = n;
      attend<Pairs>(a, s, state, views, tile, zones);
      __syncthreads();
    }
  }
  close_gradients(a, s, state, last);
}
