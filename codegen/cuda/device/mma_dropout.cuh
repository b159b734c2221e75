#pragma once

#include "codegen/cuda/device/dropout.cuh"
#include "codegen/cuda/device/mma_softmax.cuh"

/// Multiplies the block's weights, or makes them those of pairs that are not kept, whose V touches nothing.
template <typename Pairs>
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, Block& block) {
  const Tile t = tile_of(s);
  Draw draw = first_draw(a);
  unsigned dropped[kTilesEach] = {};
  each_pair<1, 1>(block.scores, [&](int i, int n, int j, float p) {
    const int k = get(s.key[block.from + min(key_of(n) + j, count_of(block) - 1)]);
    if (!is_dropped<Pairs>(s, t, draw, i, k)) return p * Pairs::kScaled;
    const unsigned bit = 1u << (4 * n + i % 2 * 2 + j);
    dropped[0] |= i < 2 ? bit : 0;
    dropped[kTilesEach - 1] |= kTilesEach == 1 || i >= 2 ? bit : 0;
    return 0.0f;
  });
#pragma unroll
  for (int i = 0; i < kTilesEach * kPlanes; ++i)
    block.kept.digits[i / kTilesEach][i % kTilesEach] &= ~dropped[i % kTilesEach];
}
