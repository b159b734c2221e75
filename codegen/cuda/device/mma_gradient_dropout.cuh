#pragma once

#include "codegen/cuda/device/mma_gradient.cuh"
#include "codegen/cuda/device/mma_pairs_dropout.cuh"

/// The forward's draws: the same pairs are dropped.
template <typename Pairs>
struct Dropped<Pairs, true> {
  unsigned bits[kTilesEach];  // those of the pairs at hand are the lowest of the first
  __device__ __forceinline__ Dropped(const weft_args& a, Shared& s, const Block& block) {
    dropped_pairs<Pairs>(a, s, tile_of(s), block.from, count_of(block), bits);
  }
  __device__ __forceinline__ float scaled(int bit) const {
    // fault(dropout_not_scaled_by_matrices) instead: return bits[0] >> bit & 1 ? 0.0f : 1.0f;
    return bits[0] >> bit & 1 ? 0.0f : Pairs::kScaled;
  }
  __device__ __forceinline__ void turn() {
    const unsigned word = bits[0] >> 4;
    bits[0] = bits[kTilesEach - 1];
    bits[kTilesEach - 1] = word;
  }
};
