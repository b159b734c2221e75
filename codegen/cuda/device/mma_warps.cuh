#pragma once

#include "codegen/cuda/device/mma_products.cuh"

// Products by instructions of one warp, whose operands are loaded from shared memory before, and whose results are there
// at once.

/// See mma_groups.cuh.
template <int kStillOpen, int kTiles>
__device__ __forceinline__ void await_products(float (&)[kTilesEach][kTiles][4], int, int) {}

template <int kApart, Of kOf = kOfAll>
__device__ __forceinline__ void load_rows(unsigned (&to)[kTilesEach][4], const unsigned char* q, int c) {
#pragma unroll
  for (int i = kBeginOf<kOf>; i < kEndOf<kOf>; ++i) load_matrices(to[i], q + i * (16 * kRowWarps) * kApart + c * 32);
}
template <int kApart>
__device__ __forceinline__ void load_keys(unsigned (&to)[4], const unsigned char* k, int c, int n) {
  // fault(rows_of_k_in_two_banks) instead: load_matrices(to, k + threadIdx.x % 8 * 3 * kApart + c * 32);
  load_matrices(to, k + n * 8 * kApart + c * 32);
}

template <Of kOf>
__device__ __forceinline__ void multiply_keys(Scores& scores, const unsigned (&rows)[kTilesEach][4],
                                              const unsigned (&keys)[4], int n) {
#pragma unroll
  for (int i = kBeginOf<kOf>; i < kEndOf<kOf>; ++i) {
    multiply(scores[i][n], rows[i], keys[0], keys[1]);
    multiply(scores[i][n + 1], rows[i], keys[2], keys[3]);
  }
}

/// What columns [16 c, 16 c + 16) of the tile's rows and of keys add to scores; of both these are the lane's rows, kApart
/// bytes apart.
template <Of kOf, int kApart>
__device__ __forceinline__ void multiply_columns(Scores& scores, const unsigned char* q, const unsigned char* k, int c) {
  unsigned rows[kTilesEach][4];
  load_rows<kApart, kOf>(rows, q, c);
#pragma unroll
  for (int n = 0; n < kKeyTiles; n += 2) {
    unsigned keys[4];
    load_keys<kApart>(keys, k, c, n);
    multiply_keys<kOf>(scores, rows, keys, n);
  }
}

template <Of kOf>
__device__ __forceinline__ void clear(Scores& scores) {
#pragma unroll
  for (int i = kBeginOf<kOf>; i < kEndOf<kOf>; ++i) {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[i][n][e] = 0;
    }
  }
}

/// The lane's rows of both operands, where the tile's rows and keys begin.
template <int kApart>
__device__ __forceinline__ void find_operands(const unsigned char*& q, const unsigned char*& k,
                                              const unsigned char* rows, const unsigned char* keys) {
  // Where registers are few, addresses are not to wait for the next block in them.
  const unsigned thread = kTwoProducts ? thread_anew() : threadIdx.x;
  const int lane = thread % 32, warp = warp_of_rows(thread);
  // fault(row_of_q) value: right + (lane % 16 < 8 ? 8 : -8) * kApart
  q = rows + (warp * 16 + lane % 16) * kApart + lane / 16 * 16;
  // fault(row_of_k) value: keys + lane % 16 * kApart + lane / 8 % 2 * 16
  k = keys + (first_key_of_warp(thread) + lane / 16 * 8 + lane % 8) * kApart + lane / 8 % 2 * 16;
}

/// scores = rows of the tile times rows of keys, which stand from there on in shared memory.
template <Of kOf, int kApart, int kOfRow, int kStepsAtOnce = 4>
__device__ __forceinline__ void multiply_rows(Scores& scores, const unsigned char* rows, const unsigned char* keys) {
  const unsigned char *q = nullptr, *k = nullptr;
  find_operands<kApart>(q, k, rows, keys);
  clear<kOf>(scores);
  constexpr int kSteps = (kOfRow + 15) / 16;
#pragma unroll(kStepsAtOnce)
  for (int c = 0; c < kSteps; ++c) multiply_columns<kOf, kApart>(scores, q, k, c);
}

/// Weights of two keys as they are multiplied.
__device__ __forceinline__ unsigned two_weights(const Scores& scores, int i, int n, int half) {
  return pack(scores[i][n][2 * half], scores[i][n][2 * half + 1]);
}

/// Packed already.
using Operands = unsigned[kTilesEach][kKeyTiles][2];
__device__ __forceinline__ unsigned two_weights(const Operands& operands, int i, int n, int half) {
  return operands[i][n][half];
}

/// sums += weights times rows of keys, which stand from there on in shared memory.
template <Of kOf, int kApart, int kTiles, typename Weights>
__device__ __forceinline__ void sum_rows(float (&sums)[kTilesEach][kTiles][4], const Weights& of_keys, unsigned tiles,
                                           const unsigned char* keys, int = 0, int = kTilesEach) {
  const int lane = threadIdx.x % 32;
  // fault(row_of_v) value: keys + (lane / 16 * 8 + lane % 8) * kApart + lane / 16 * 16
  const unsigned char* const v = keys + (first_key_of_warp(threadIdx.x) + lane % 16) * kApart + lane / 16 * 16;
#pragma unroll
  for (int n = 0; n < kKeyTiles; n += 2) {
    unsigned weights[kTilesEach][4];
#pragma unroll
    for (int i = kBeginOf<kOf>; i < kEndOf<kOf>; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        // fault(weights_of_the_other_keys) value: n + 1 - e / 2
        const int tile = n + e / 2;
        weights[i][e] = two_weights(of_keys, i, tile, e % 2);
      }
    }
#pragma unroll
    for (int c = 0; c < kTiles; c += 2) {
      unsigned columns[4];
      // fault(values_not_transposed) instead: load_matrices(columns, v + n * 8 * kApart + c * 16);
      load_transposed(columns, v + n * 8 * kApart + c * 16);
      // Without a fence all fragments of the keys are loaded ahead, and at 128 columns registers are spilled.
      constexpr bool kWide = kTiles > 8 || (kTransposed && kTilesEach > 1), kFenced = kWide && !kTwoProducts;
      if (kWide && kTwoProducts) __syncwarp();
#pragma unroll
      for (int i = kBeginOf<kOf>; i < kEndOf<kOf>; ++i) {
        const int on = (int)(tiles & kMarkTile << i);
        multiply<kFenced>(sums[i][c], weights[i], columns[0], columns[1], on);
        // fault(halves_of_b_swapped) instead: multiply(sums[i][c + 1], weights[i], columns[3], columns[2]);
        multiply(sums[i][c + 1], weights[i], columns[2], columns[3]);
      }
    }
  }
}
