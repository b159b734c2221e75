#pragma once

#include "codegen/cuda/device/mma_keys.cuh"

// Which pairs of a block of keys are kept, and by how many branches, as bits in the order of the results of matrix
// instructions.

constexpr int kTilesEach = kRows / (16 * kWarps);  // a warp's tiles of 16 rows
constexpr int kRowsEach = 2 * kTilesEach;          // a thread's rows
constexpr int kKeyTiles = kKeys / 8;               // of each it has two keys

/// A thread's row i, of the tile: the warps' 16 rows lie side by side, so that all have a share in a border.
__device__ __forceinline__ int row_at(int i) {
  return i / 2 * (16 * kWarps) + (int)(threadIdx.x / 32) * 16 + i % 2 * 8 + (int)(threadIdx.x % 32) / 4;
}
/// Of the two keys of tile n the first, as a place in the block.
__device__ __forceinline__ int key_at(int n) { return n * 8 + (int)(threadIdx.x % 4) * 2; }

/// Of tile i of 16 rows, bit 4 * n + 2 * half + j: row 2 * i + half and key j of tile n. The digits are those of how
/// many branches keep the pair; without such counts there is one.
constexpr int kPlanes = kCounts ? kDigits : 1;
struct Kept {
  unsigned digits[kPlanes][kTilesEach];
};

/// The pairs of a tile that some branch keeps.
__device__ __forceinline__ unsigned kept_by_any(const Kept& kept, int tile) {
  unsigned bits = 0;
#pragma unroll
  for (int d = 0; d < kPlanes; ++d) bits |= kept.digits[d][tile];
  return bits;
}

__device__ __forceinline__ void add_branch(Kept& kept, const unsigned (&more)[kTilesEach]) {
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
    unsigned carry = more[i];
#pragma unroll
    for (int d = 0; d < kPlanes; ++d) {
      const unsigned sum = kCounts ? kept.digits[d][i] ^ carry : kept.digits[d][i] | carry;
      carry &= kept.digits[d][i];
      kept.digits[d][i] = sum;
    }
  }
}

/// How many branches keep the pair of a bit.
__device__ __forceinline__ float count_of(const Kept& kept, int tile, int bit) {
  float count = 0;
#pragma unroll
  for (int d = 0; d < kPlanes; ++d) count += kept.digits[d][tile] >> bit & 1 ? (float)(1 << d) : 0;
  return count;
}

/// The pairs that the term keeps, but for those it asks for one by one. A tile of 16 rows at a time: what all rows say
/// takes more registers than there are.
__device__ __forceinline__ void keep_by_term(Shared& s, unsigned (&kept)[kTilesEach], bool negated) {
#pragma unroll 1
  for (int i = 0; i < kTilesEach; ++i) {
    const OfRow above = of_row(s, row_at(2 * i)), below = of_row(s, row_at(2 * i + 1));
    unsigned bits = 0;
#pragma unroll 1
    for (int n = 0; n < kKeyTiles; ++n) {
      const int2 y = load_shared<int2>(&s.meets.key[key_at(n)]);
      int2 fails = {}, value = {};
      if (kConditions > 0) fails = load_shared<int2>(&s.meets.fails[key_at(n)]);
      if (kByValues) value = load_shared<int2>(&s.meets.value[key_at(n)]);
      const OfKey first = {y.x, value.x, (unsigned)fails.x}, second = {y.y, value.y, (unsigned)fails.y};
      const unsigned four = (keeps(above, first, negated) ? 1u : 0u) | (keeps(above, second, negated) ? 2u : 0u) |
                            (keeps(below, first, negated) ? 4u : 0u) | (keeps(below, second, negated) ? 8u : 0u);
      bits |= four << (4 * n);
    }
    kept[0] = kept[kTilesEach - 1];
    kept[kTilesEach - 1] = bits;
  }
  static_assert(kTilesEach <= 2, "the last two stay");
}

/// Without the pairs that fail the term's conditions.
__device__ __forceinline__ void keep_holding(const weft_args& a, Shared& s, const Tile& t, const Term& term,
                                             unsigned (&kept)[kTilesEach]) {
#pragma unroll 1
  for (int i = 0; i < kTilesEach; ++i) {
    unsigned left = kept[0];
#pragma unroll 1
    for (unsigned rest = left; rest != 0; rest &= rest - 1) {
      const int bit = __ffs((int)rest) - 1;
      const int q = get(s.x[row_at(2 * i + bit / 2 % 2)]), k = get(s.meets.key[key_at(bit / 4) + bit % 2]);
      if (!holds_pair(a, s, t, term, q, k)) left &= ~(1u << bit);
    }
    // By turns, because an index would put them on the stack.
    kept[0] = kept[kTilesEach - 1];
    kept[kTilesEach - 1] = left;
  }
}

/// Pairs of a block of `count` keys from place `from` of the list on, which ascend where they are not `mixed`.
__device__ __forceinline__ void weigh_pairs(const weft_args& a, Shared& s, const i64* pass, int from, int count,
                                            bool mixed, Kept& kept) {
  const Tile t = tile_of(s);
  const int terms = get(s.walk.terms);
  const int lowest = mixed ? 0 : get(s.key[from]), highest = mixed ? kLargest : get(s.key[from + count - 1]);
  unsigned group[kTilesEach] = {};
  int branch = -1;  // of the group; the one of the end is -2
  kept = {};
#pragma unroll 1
  for (int i = 0; i <= terms; ++i) {
    const Term& term = terms_of(s)[min(i, terms - 1)];
    const bool end = i == terms;
    if (!end && (!get(term.live) || highest < get(term.may_lo) || lowest >= get(term.may_hi))) continue;
    const int its_branch = end ? -2 : get(term.branch);
    if (its_branch != branch) {
      add_branch(kept, group);
#pragma unroll
      for (int j = 0; j < kTilesEach; ++j) group[j] = 0;
      branch = its_branch;
    }
    if (end) break;
    meet_term(a, s, t, pass + kTermsAt + i * kTermWords, term, from, count);
    __syncthreads();
    unsigned by_term[kTilesEach];
    const int open = kConditions > 0 ? get(term.open) : 0;
    keep_by_term(s, by_term, (open & kValueNegated) != 0);
    if (open & kAsksPairs) keep_holding(a, s, t, term, by_term);
#pragma unroll
    for (int j = 0; j < kTilesEach; ++j) group[j] |= by_term[j];
    __syncthreads();
  }
}
