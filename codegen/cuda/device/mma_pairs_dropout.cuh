#pragma once

#include "codegen/cuda/device/dropout.cuh"
#include "codegen/cuda/device/mma_lanes.cuh"

// Which pairs of a block are dropped, in the order of the results of matrix instructions, in either pass. A draw serves
// four keys of a query, which neighbouring lanes have pairs of: each draws for all of them, and they exchange bits.

/// Of a thread's. In the backward pass registers are short, and of large heads.
constexpr int kDrawsAtOnce = kGradient || kTilesEach * kDimV > 128 ? 1 : kTilesEach;

/// Which of four keys are dropped, as bits.
template <typename Pairs>
__device__ __forceinline__ unsigned dropped_of_four(const uint4& words) {
  return (words.x < Pairs::kDropped ? 1u : 0u) | (words.y < Pairs::kDropped ? 2u : 0u) |
         (words.z < Pairs::kDropped ? 4u : 0u) | (words.w < Pairs::kDropped ? 8u : 0u);
}

/// Four bits for each tile of 8 keys, of the draws that the thread makes: counter(n, i), of key tile n and row tile i.
template <typename Pairs, typename Counter>
__device__ __forceinline__ void draw_for_lanes(u64 seed, unsigned (&own)[kTilesEach], const Counter& counter) {
#pragma unroll 1
  for (int n = 0; n < kKeyTiles; ++n) {
    // Tiles of rows turn, where registers are too short for the draws of all at once.
#pragma unroll 1
    for (int i = 0; i < kTilesEach; i += kDrawsAtOnce) {
      uint4 draws[kDrawsAtOnce];
#pragma unroll
      for (int j = 0; j < kDrawsAtOnce; ++j) draws[j] = counter(n, i + j);
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
  for (int i = 0; i < kTilesEach; ++i) own[i] >>= 32 - 4 * kKeyTiles;
}

/// Rows are queries, and the block's keys follow each other from key `first` on, a multiple of 4: two lanes have two of
/// four keys each, so one draws them for the upper row, the other for the lower. What is drawn for keys behind the last
/// is nobody's.
template <typename Pairs>
__device__ __forceinline__ void find_dropped(Shared& s, const Tile& t, u64 seed, int first,
                                             unsigned (&dropped)[kTilesEach]) {
  const int odd = (int)threadIdx.x % 2;
  draw_for_lanes<Pairs>(seed, dropped, [&](int n, int i) {
    return counter_of(t, (first + key_of(n)) / 4, get(s.x[row_of(2 * i + odd)]));
  });
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
    const unsigned mine = dropped[i], other = __shfl_xor_sync(0xFFFFFFFFu, mine, 1);
    // fault(draws_of_the_other_row) value: odd != 0 ? mine : other
    const unsigned upper = odd != 0 ? other : mine;
    const unsigned lower = mine ^ other ^ upper;
    dropped[i] = (upper >> 2 * odd & 0x33333333u) | (lower >> 2 * odd & 0x33333333u) << 2;
  }
}

/// Rows are keys, of which four lanes have four that follow each other, in two rows each, and the same two queries:
/// lane number 2 * half + j draws for query j and the keys in row `half`. Rows that the tile lacks repeat its last one,
/// and so draw for the same four keys as those beside them. `count`: of queries.
template <typename Pairs>
__device__ __forceinline__ void find_dropped_by_key(Shared& s, const Tile& t, u64 seed, int from, int count,
                                                    unsigned (&dropped)[kTilesEach]) {
  const int lane = (int)threadIdx.x % 32 / 4 % 4;
  draw_for_lanes<Pairs>(seed, dropped, [&](int n, int i) {
    const int q = get(s.key[from + min(key_of(n) + lane % 2, count - 1)]);
    return counter_of(t, get(s.x[row_of(2 * i + lane / 2)]) / 4, q);
  });
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
    unsigned of_lane = 0;
#pragma unroll
    for (int apart = 0; apart < 4; ++apart) {
      const unsigned drawn = __shfl_xor_sync(0xFFFFFFFFu, dropped[i], 4 * apart);
      // fault(draws_of_the_other_key) instead: of_lane |= (drawn >> (lane ^ apart) & 0x11111111u) << (lane ^ apart);
      of_lane |= (drawn >> lane & 0x11111111u) << (lane ^ apart);
    }
    dropped[i] = of_lane;
  }
}

/// The same of any pairs, one by one.
template <typename Pairs>
__device__ __forceinline__ void find_dropped_singly(Shared& s, const Tile& t, Draw draw, int from, int count,
                                                    unsigned (&dropped)[kTilesEach]) {
#pragma unroll 1
  for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll 1
    for (int i = 0; i < kTilesEach; ++i) {
      unsigned four = 0;
#pragma unroll 1
      for (int turn = 0; turn < 4; ++turn) {
        const int y = get(s.key[from + min(key_of(n) + turn % 2, count - 1)]), x = get(s.x[row_of(2 * i + turn / 2)]);
        const int q = kTransposed ? y : x, k = kTransposed ? x : y;
        four |= (is_dropped<Pairs>(t, draw, q, k) ? 1u : 0u) << turn;
      }
      const unsigned of_tile = dropped[0] >> 4 | four << 28;
#pragma unroll
      for (int other = 0; other < kTilesEach - 1; ++other) dropped[other] = dropped[other + 1];
      dropped[kTilesEach - 1] = of_tile;
    }
  }
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) dropped[i] >>= 32 - 4 * kKeyTiles;
}

/// Can lanes draw for each other? Where rows are queries, the block's keys follow each other, be they of several zones.
/// Where rows are keys, four do, from a multiple of 4 on; rows that the tile lacks are nobody's.
__device__ __forceinline__ bool lanes_share_draws(Shared& s, int from, int count) {
  bool share = true;
  if (kTransposed) {
    const int number = (int)threadIdx.x % 32 / 4 % 4;
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      const int row = row_of(i), first = row - number;
      share = share && (row >= get(s.tile.count) || get(s.x[row]) == (get(s.x[first]) & ~3) + number);
    }
  } else {
    const int first = get(s.key[from]);
    // fault(lanes_share_draws_of_other_keys) leaves this out
    share = first % 4 == 0;
#pragma unroll
    for (int i = threadIdx.x % 32; i < kKeys; i += 32)
      share = share && (i >= count || get(s.key[from + i]) == first + i);
  }
  return __all_sync(0xFFFFFFFFu, share);
}

/// Of the `count` keys from place `from` of the list on; bits as those that say which pairs are kept.
template <typename Pairs>
__device__ __forceinline__ void dropped_pairs(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                              unsigned (&dropped)[kTilesEach]) {
  const Draw draw = first_draw(a);
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) dropped[i] = 0;
  if (!lanes_share_draws(s, from, count)) {
    find_dropped_singly<Pairs>(s, t, draw, from, count, dropped);
  } else if constexpr (kTransposed) {
    find_dropped_by_key<Pairs>(s, t, draw.seed, from, count, dropped);
  } else {
    find_dropped<Pairs>(s, t, draw.seed, get(s.key[from]), dropped);
  }
}
