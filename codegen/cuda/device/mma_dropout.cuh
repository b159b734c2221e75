#pragma once

#include "codegen/cuda/device/dropout.cuh"
#include "codegen/cuda/device/mma_softmax.cuh"

constexpr int kDrawsAtOnce = kTilesEach * kDimV > 128 ? 1 : kTilesEach;  // of a thread's

/// Which of four keys are dropped, as bits.
template <typename Pairs>
__device__ __forceinline__ unsigned dropped_of_four(const uint4& words) {
  return (words.x < Pairs::kDropped ? 1u : 0u) | (words.y < Pairs::kDropped ? 2u : 0u) |
         (words.z < Pairs::kDropped ? 4u : 0u) | (words.w < Pairs::kDropped ? 8u : 0u);
}

/// Which pairs of a block are dropped whose keys follow each other from key `first` on, a multiple of 4: neighbouring
/// lanes have two of the same four keys each, so one draws them for the upper row, the other for the lower. What is
/// drawn for keys behind the last is nobody's.
template <typename Pairs>
__device__ __forceinline__ void find_dropped(Shared& s, const Tile& t, u64 seed, int first,
                                             unsigned (&dropped)[kTilesEach]) {
  const int odd = (int)threadIdx.x % 2;
  unsigned own[kTilesEach] = {};
#pragma unroll 1
  for (int n = 0; n < kKeyTiles; ++n) {
    // Tiles of rows turn, where registers are too short for the draws of all at once.
#pragma unroll 1
    for (int i = 0; i < kTilesEach; i += kDrawsAtOnce) {
      uint4 draws[kDrawsAtOnce];
#pragma unroll
      for (int j = 0; j < kDrawsAtOnce; ++j)
        draws[j] = counter_of(t, (first + key_of(n)) / 4, get(s.x[row_of(2 * (i + j) + odd)]));
      philox(draws, seed);
#pragma unroll
      for (int j = 0; j < kDrawsAtOnce; ++j) {
        const unsigned four = dropped_of_four<Pairs>(draws[j]), of_tile = own[0] >> 4 | four << 28;
#pragma unroll
        for (int other = 0; other < kTilesEach - 1; ++other) own[other] = own[other + 1];
        own[kTilesEach - 1] = of_tile;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
    const unsigned mine = own[i] >> (32 - 4 * kKeyTiles), other = __shfl_xor_sync(0xFFFFFFFFu, mine, 1);
    // fault(draws_of_the_other_row) value: odd != 0 ? mine : other
    const unsigned upper = odd != 0 ? other : mine;
    const unsigned lower = mine ^ other ^ upper;
    dropped[i] = (upper >> 2 * odd & 0x33333333u) | (lower >> 2 * odd & 0x33333333u) << 2;
  }
}

/// The same of any keys, pair by pair, and of tile n of 8 keys and tile i of 16 rows, in the order of its results.
template <typename Pairs>
__device__ __forceinline__ unsigned dropped_of(Shared& s, const Tile& t, const Block& block, Draw& draw, int n, int i) {
  unsigned dropped = 0;
#pragma unroll 1
  for (int turn = 0; turn < 4; ++turn) {
    const int half = turn / 2, j = turn % 2;
    const int k = get(s.key[block.from + min(key_of(n) + j, count_of(block) - 1)]);
    if (j == 0 || k / 4 != draw.keys) draw_anew(t, draw, half, k / 4, get(s.x[row_of(2 * i + half)]));
    dropped |= (is_dropped<Pairs>(draw, k) ? 1u : 0u) << turn;
  }
  return dropped;
}

template <typename Pairs>
__device__ __forceinline__ void find_dropped_singly(Shared& s, const Tile& t, Draw draw, const Block& block,
                                                    unsigned (&dropped)[kTilesEach]) {
#pragma unroll 1
  for (int n = 0; n < kKeyTiles; ++n) {
    unsigned of[2] = {};
#pragma unroll 1
    for (int i = 0; i < kTilesEach; ++i) {
      of[0] = of[1];
      of[1] = dropped_of<Pairs>(s, t, block, draw, n, i);
    }
    dropped[0] |= of[kTilesEach > 1 ? 0 : 1] << 4 * n;
    if (kTilesEach > 1) dropped[kTilesEach - 1] |= of[1] << 4 * n;
  }
}

/// Are the block's keys `first` and those behind it? Also where they are of several zones.
__device__ __forceinline__ bool follow_each_other(Shared& s, const Block& block, int first) {
  bool follow = true;
#pragma unroll
  for (int i = threadIdx.x % 32; i < kKeys; i += 32)
    follow = follow && (i >= count_of(block) || get(s.key[block.from + i]) == first + i);
  return __all_sync(0xFFFFFFFFu, follow);
}

/// Multiplies the block's weights, or makes them those of pairs that are not kept, whose V touches nothing. First as
/// bits, so that the loop of the draws does not turn the weights.
template <typename Pairs>
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, Block& block) {
  const Tile t = tile_of(s);
  const Draw draw = first_draw(a);
  const int first = get(s.key[block.from]);
  // fault(lanes_share_draws_of_other_keys) value: follow_each_other(s, block, first)
  const bool even = first % 4 == 0 && follow_each_other(s, block, first);
  unsigned dropped[kTilesEach] = {};
  if (even) {
    find_dropped<Pairs>(s, t, draw.seed, first, dropped);
  } else {
    find_dropped_singly<Pairs>(s, t, draw, block, dropped);
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
