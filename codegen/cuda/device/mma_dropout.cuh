#pragma once

#include "codegen/cuda/device/mma_pairs.cuh"
#include "codegen/cuda/device/philox.cuh"

// Dropout: after the softmax's sum, so that l and the LSE know nothing of it. See semantics sections 5 and 7.

/// Multiplies the block's weights, or makes them those of pairs that are not kept, whose V touches nothing. One draw
/// serves four keys, and neighbours of a list are mostly neighbours of the sequence.
template <typename Pairs>
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, Block& block) {
  const Tile t = tile_of(s);
  const u64 seed = a.seed_at != nullptr ? load_global<u64>(a.seed_at) : a.seed;
  uint4 words = {};
  int drawn = -1, row = -1;
  unsigned dropped[kTilesEach] = {};
  each_pair<1, 1>(block.scores, [&](int i, int n, int j, float p) {
    const int k = get(s.key[block.from + min(key_at(n) + j, count_of(block) - 1)]);
    if (k / 4 != drawn || i != row) {
      drawn = k / 4;
      row = i;
      const unsigned q = (unsigned)get(s.x[row_at(i)]);
      words = philox(make_uint4((unsigned)drawn, q, (unsigned)t.h | (unsigned)t.b << 16, 1), seed);
    }
    const unsigned pair[2] = {(k & 1) != 0 ? words.y : words.x, (k & 1) != 0 ? words.w : words.z};
    if (((k & 2) != 0 ? pair[1] : pair[0]) >= Pairs::kDropped) return p * Pairs::kScaled;
    const unsigned bit = 1u << (4 * n + i % 2 * 2 + j);
    dropped[0] |= i < 2 ? bit : 0;
    dropped[kTilesEach - 1] |= kTilesEach == 1 || i >= 2 ? bit : 0;
    return 0.0f;
  });
#pragma unroll
  for (int i = 0; i < kTilesEach * kPlanes; ++i)
    block.kept.digits[i / kTilesEach][i % kTilesEach] &= ~dropped[i % kTilesEach];
}
