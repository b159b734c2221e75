#pragma once

#include "codegen/cuda/device/mma_views.cuh"

// Who computes what, with matrix instructions. A warp has tiles of 16 rows; of each a thread has two rows, and of each 8
// keys two.

constexpr int kTilesEach = kRows / (16 * kWarps);  // a warp's tiles of 16 rows
constexpr int kRowsEach = 2 * kTilesEach;          // a thread's rows
constexpr int kKeyTiles = kKeys / 8;               // of each it has two keys

/// A thread's row i, of the tile: the warps' 16 rows lie side by side, so that all have a share in a border.
__device__ __forceinline__ int row_of(int i) {
  return i / 2 * (16 * kWarps) + (int)(threadIdx.x / 32) * 16 + i % 2 * 8 + (int)(threadIdx.x % 32) / 4;
}
/// Of the two keys of tile n the first, as a place in the block.
__device__ __forceinline__ int key_of(int n) { return n * 8 + (int)(threadIdx.x % 4) * 2; }

/// Pairs as bits, in the order of the results of matrix instructions. Word i is tile i of 16 rows; of its bits
/// 4 * n + 2 * half + j is row 2 * i + half and key j of tile n.
constexpr int kBitWords = kTilesEach;
constexpr unsigned kAllBits = 4 * kKeyTiles == 32 ? ~0u : (1u << 4 * kKeyTiles) - 1;
__device__ __forceinline__ int row_of_bit(int word, int bit) { return row_of(2 * word + bit / 2 % 2); }
__device__ __forceinline__ int key_of_bit(int, int bit) { return key_of(bit / 4) + bit % 2; }

/// The pairs of a word that the term keeps, but for those it asks for one by one.
__device__ __forceinline__ unsigned keep_by_term(Shared& s, int word, bool negated) {
  const OfRow above = of_row(s, row_of(2 * word)), below = of_row(s, row_of(2 * word + 1));
  unsigned bits = 0;
#pragma unroll 1
  for (int n = 0; n < kKeyTiles; ++n) {
    const int2 y = load_shared<int2>(&s.meets.key[key_of(n)]);
    int2 fails = {}, value = {};
    if (kConditions > 0) fails = load_shared<int2>(&s.meets.fails[key_of(n)]);
    if (kByValues) value = load_shared<int2>(&s.meets.value[key_of(n)]);
    const OfKey first = {y.x, value.x, (unsigned)fails.x}, second = {y.y, value.y, (unsigned)fails.y};
    const unsigned four = (keeps(above, first, negated) ? 1u : 0u) | (keeps(above, second, negated) ? 2u : 0u) |
                          (keeps(below, first, negated) ? 4u : 0u) | (keeps(below, second, negated) ? 8u : 0u);
    bits |= four << (4 * n);
  }
  return bits;
}
