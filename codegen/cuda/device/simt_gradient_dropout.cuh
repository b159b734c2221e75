#pragma once

#include "codegen/cuda/device/dropout.cuh"
#include "codegen/cuda/device/simt_gradient.cuh"

/// The forward's draws: the same pairs are dropped.
template <typename Pairs>
struct Draws<Pairs, true> {
  Draw draw;
  __device__ __forceinline__ Draws(const weft_args& a) : draw(first_draw(a)) {}
  __device__ __forceinline__ float scaled(const Tile& t, int q, int k) {
    // fault(other_pairs_dropped_than_in_the_forward) instead: return is_dropped<Pairs>(t, draw, k, q) ? 0 : Pairs::kScaled;
    // fault(dropout_not_scaled) instead: return is_dropped<Pairs>(t, draw, q, k) ? 0 : 1;
    return is_dropped<Pairs>(t, draw, q, k) ? 0 : Pairs::kScaled;
  }
};
