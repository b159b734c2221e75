#pragma once

#include "codegen/cuda/device/mma_pairs_dropout.cuh"
#include "codegen/cuda/device/mma_softmax.cuh"

/// Multiplies the block's weights, or makes them those of pairs that are not kept, whose V touches nothing. First as
/// bits, so that the loop of the draws does not turn the weights.
template <typename Pairs>
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, Block& block) {
  unsigned dropped[kTilesEach];
  dropped_pairs<Pairs>(a, s, tile_of(s), block.from, count_of(block), dropped);
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
#pragma unroll
    for (int e = 0; e < 4 * kKeyTiles; ++e) {
      float& p = block.scores[i][e / 4][e % 4];
      p = dropped[i] & 1u << e ? 0.0f : p * Pairs::kScaled;
    }
  }
#pragma unroll
  for (int i = 0; i < kTilesEach * kPlanes; ++i)
    block.kept.digits[i / kTilesEach][i % kTilesEach] &= ~dropped[i % kTilesEach];
}
