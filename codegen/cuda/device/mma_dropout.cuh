#pragma once

#include "codegen/cuda/device/dropout.cuh"
#include "codegen/cuda/device/mma_softmax.cuh"

/// Which pairs of tile n of 8 keys and tile i of 16 rows are dropped, in the order of its results. Where the block's keys
/// follow each other from a multiple of 4 on (`even`), neighbouring lanes have two of the same four keys each: one draws
/// them for the upper row, the other for the lower.
template <typename Pairs>
__device__ __forceinline__ unsigned dropped_of(Shared& s, const Tile& t, const Block& block, Draw& draw, int n, int i,
                                               bool even) {
  const int odd = (int)threadIdx.x % 2;
  unsigned dropped = 0;
#pragma unroll 1
  for (int turn = 0; turn < (even ? 1 : 4); ++turn) {
    const int half = even ? odd : turn / 2, j = turn % 2;
    const int k = get(s.key[block.from + min(key_of(n) + j, count_of(block) - 1)]);
    if (even || j == 0 || k / 4 != draw.keys) draw_anew(t, draw, half, k / 4, get(s.x[row_of(2 * i + half)]));
    if (!even) {
      dropped |= (is_dropped<Pairs>(draw, k) ? 1u : 0u) << turn;
      continue;
    }
    unsigned four = 0;
#pragma unroll
    for (int key = 0; key < 4; ++key) four |= (is_dropped<Pairs>(draw, key) ? 1u : 0u) << key;
    const unsigned other = __shfl_xor_sync(0xFFFFFFFFu, four, 1);
    // fault(draws_of_the_other_row) value: odd != 0 ? four : other
    const unsigned upper = odd != 0 ? other : four;
    const unsigned lower = four ^ other ^ upper;
    dropped = (upper >> 2 * odd & 3) | (lower >> 2 * odd & 3) << 2;
  }
  return dropped;
}

/// Multiplies the block's weights, or makes them those of pairs that are not kept, whose V touches nothing. First as bits,
/// so that the loop of the draws does not turn the weights.
template <typename Pairs>
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, Block& block) {
  const Tile t = tile_of(s);
  Draw draw = first_draw(a);
  const int first = get(s.key[block.from]), last = get(s.key[block.from + count_of(block) - 1]);
  // fault(lanes_share_draws_of_other_keys) value: last - first == count_of(block) - 1
  const bool even = (block.is & kMarkMixed) == 0 && first % 4 == 0 && last - first == count_of(block) - 1;
  unsigned dropped[kTilesEach] = {};
#pragma unroll 1
  for (int n = 0; n < kKeyTiles; ++n) {
    unsigned of[2] = {};
#pragma unroll 1
    for (int i = 0; i < kTilesEach; ++i) {
      of[0] = of[1];
      of[1] = dropped_of<Pairs>(s, t, block, draw, n, i, even);
    }
    dropped[0] |= of[kTilesEach > 1 ? 0 : 1] << 4 * n;
    if (kTilesEach > 1) dropped[kTilesEach - 1] |= of[1] << 4 * n;
  }
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
