#pragma once

#include "codegen/cuda/device/mma_stage.cuh"

// Who computes what, with matrix instructions. A warp has tiles of 16 rows; of each a thread has two rows, and of each 8
// keys two. Where there are fewer such tiles than warps, as in decoding, warps share rows, and each has keys of its own.

constexpr int kKeyParts = kShape.key_parts();     // of a block of keys, one for each of the warps that share rows
constexpr int kRowWarps = kWarps / kKeyParts;     // that have rows of their own
constexpr int kKeysEach = kKeys / kKeyParts;
constexpr int kTilesEach = kRows / (16 * kRowWarps);  // a warp's tiles of 16 rows
constexpr int kRowsEach = 2 * kTilesEach;             // a thread's rows
constexpr int kKeyTiles = kKeysEach / 8;              // of each it has two keys

__device__ __forceinline__ int warp_of_rows(unsigned thread) {
  return kKeyParts == 1 ? (int)(thread / 32) : (int)(thread / 32) % kRowWarps;
}
/// The first of the warp's keys, as a place in the block.
__device__ __forceinline__ int first_key_of_warp(unsigned thread) {
  // fault(warps_share_the_first_keys) also: return 0;
  return kKeyParts > 1 ? (int)(thread / 32) / kRowWarps * kKeysEach : 0;
}
/// Does the warp have these 8 columns of O once all that share its rows have put together what they found?
__device__ __forceinline__ bool has_columns(int tile) {
  return kKeyParts == 1 || tile % kKeyParts == (int)(threadIdx.x / 32) / kRowWarps;
}

/// A thread's row i, of the tile: the warps' 16 rows lie side by side, so that all have a share in a border.
__device__ __forceinline__ int row_of(int i) {
  return i / 2 * (16 * kRowWarps) + warp_of_rows(threadIdx.x) * 16 + i % 2 * 8 + (int)(threadIdx.x % 32) / 4;
}
/// Of the two keys of tile n the first, as a place in the block.
__device__ __forceinline__ int key_of(int n) {
  return first_key_of_warp(threadIdx.x) + n * 8 + (int)(threadIdx.x % 4) * 2;
}

/// Pairs as bits, in the order of the results of matrix instructions. Word i is tile i of 16 rows; of its bits
/// 4 * n + 2 * half + j is row 2 * i + half and key j of tile n.
constexpr int kBitWords = kTilesEach;
constexpr unsigned kAllBits = 4 * kKeyTiles == 32 ? ~0u : (1u << 4 * kKeyTiles) - 1;
__device__ __forceinline__ int row_of_bit(int word, int bit) { return row_of(2 * word + bit / 2 % 2); }
__device__ __forceinline__ int key_of_bit(int, int bit) { return key_of(bit / 4) + bit % 2; }

/// Bits of both rows of a word for keys of the block: bit k of the two words is key k of it.
__device__ __forceinline__ unsigned bits_of_keys(unsigned first, unsigned second) {
  if (kKeyParts > 1) {
    const int key = first_key_of_warp(threadIdx.x);
    // fault(hits_of_the_first_warp_for_all) leaves this out
    first = (key < 32 ? first : second) >> key % 32;
  }
  unsigned bits = 0;
#pragma unroll
  for (int half = 0; half < (kKeysEach + 31) / 32; ++half) {
    const unsigned twos = (half == 0 ? first : second) >> threadIdx.x % 4 * 2 & 0x03030303u;  // two of each 8 keys
    const unsigned fours = (twos | twos >> 4) & 0x00FF00FFu;
    bits |= ((fours | fours >> 8) & 0xFFFFu) << (16 * half);
  }
  return kKeyParts == 1 ? bits | bits << 2 : (bits | bits << 2) & kAllBits;
}

/// So many of the block's first keys: how many of these are the warp's.
__device__ __forceinline__ int of_warp(int keys) {
  return kKeyParts == 1 ? keys : min(max(keys - first_key_of_warp(threadIdx.x), 0), kKeysEach);
}

/// The pairs of a word whose key is not below the lower bound of its row, but below the upper. Four lanes share two rows:
/// of each a lane knows one end, how many of the warp's keys lie below it. As bits of all keys first, 32 at a time, which
/// lanes put together, and of which each takes two of every eight.
__device__ __forceinline__ unsigned bits_between(int below) {
  // Up to 64 columns a lane that is kept for this costs gradients a register that they do not have; of more, one made anew.
  const int lane = (kDim <= 64 ? thread_anew() : threadIdx.x) % 4;
  unsigned eights[2] = {};  // of two tiles of keys in bytes 0 and 2
#pragma unroll
  for (int half = 0; half < (kKeysEach + 31) / 32; ++half) {
    const unsigned behind = __funnelshift_lc(0, ~0u, half == 0 ? below : max(below - 32, 0));
    const unsigned own = lane % 2 == 0 ? behind : ~behind, of_row = own & __shfl_xor_sync(0xFFFFFFFFu, own, 1);
    const unsigned upper = __shfl_sync(0xFFFFFFFFu, of_row, 0, 4) >> 2 * lane & 0x03030303u;
    const unsigned lower = __shfl_sync(0xFFFFFFFFu, of_row, 2, 4) >> 2 * lane & 0x03030303u;
    const unsigned fours = upper | lower << 2;
    eights[half] = fours | fours >> 4;
  }
  return __byte_perm(eights[0], eights[1], 0x6420) & kAllBits;
}

/// The same of `count` ascending keys from place `from` of the list on.
__device__ __forceinline__ unsigned keep_by_bounds(Shared& s, int word, int from, int count) {
  const int lane = threadIdx.x % 4, row = row_of(2 * word + lane / 2);
  // fault(bound_one_too_far) value: right + lane % 2
  const int below = keys_below(s, from, count, lane % 2 == 0 ? get(s.meets.lo[row]) : get(s.meets.hi[row]));
  return bits_between(of_warp(below));
}

/// The pairs of a word that the term keeps, but for those it asks for one by one.
__device__ __forceinline__ unsigned keep_by_term(Shared& s, int word, bool negated, int from, int count, bool bounded) {
  if (bounded) {
    const unsigned bits = keep_by_bounds(s, word, from, count);
    if (kConditions == 0 && !kHasStreams && !kHasFilters) return bits;
    // fault(keys_between_bounds_without_a_hit) instead: return bits;
    return bits & bits_of_keys(hits_of(s, 0), kKeys > 32 ? hits_of(s, kKeyWarps - 1) : 0);
  }
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
