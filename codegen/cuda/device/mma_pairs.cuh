#pragma once

#include "codegen/cuda/device/mma.cuh"

// What a pattern says of single pairs, applied to a block.

/// Puts the pattern's score into the place of the products.
template <typename Pairs>
__device__ __forceinline__ void apply_score(const weft_args& a, Shared& s, Block& block) {
  const Tile t = tile_of(s);
  const float scale = (float)a.scale;
  each_pair<Pairs::kTilesAtOnce, Pairs::kRowsAtOnce>(block.scores, [&](int i, int n, int j, float product) {
    const int k = get(s.key[block.from + min(key_at(n) + j, count_of(block) - 1)]);
    return Pairs::score(a, t, product * scale, get(s.x[row_at(i)]), k);
  });
}

/// For patterns that drop weights: mma_dropout.cuh.
template <typename Pairs>
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, Block& block);
