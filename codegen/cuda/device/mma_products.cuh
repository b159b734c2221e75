#pragma once

#include "codegen/cuda/device/mma_lanes.cuh"
#include "codegen/cuda/device/mma_ptx.cuh"
#include "codegen/cuda/device/pairs.cuh"
#include "codegen/cuda/device/settle.cuh"

// Products of a block of keys by matrix instructions: rows by keys (S = Q K^T), and sums of rows of keys (O += P V). A
// warp computes tiles of 16 rows; what the first kind gives are the operands of the second, in registers.

using Scores = float[kTilesEach][kKeyTiles][4];

template <bool kFenced = false>
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int on = 1) {
  if constexpr (kStored == Element::f16) {
    multiply_halves<kFenced>(c, a, b0, b1, on);
  } else {
    multiply_bfloats<kFenced>(c, a, b0, b1, on);
  }
}

__device__ __forceinline__ unsigned pack(float low, float high) {
  if constexpr (kStored == Element::f16) {
    return pack_halves(low, high);
  } else {
    return pack_bfloats(low, high);
  }
}

/// Nobody asks for them in the next turn of a loop.
__device__ __forceinline__ void forget(Scores& scores) {
#pragma unroll
  for (int i = 0; i < kTilesEach * kKeyTiles * 4; ++i) scores[i / 4 / kKeyTiles][i / 4 % kKeyTiles][i % 4] = anything();
}

/// A bit for each of the warp's tiles of 16 rows that has a pair that counts, of kMarkTile on.
enum TileMark : unsigned { kMarkTile = 8, kMarkTiles = ((1 << kTilesEach) - 1) * kMarkTile };

/// What columns [16 c, 16 c + 16) of the tile's rows and of keys add to scores; of both these are the lane's rows, kApart
/// bytes apart. Tiles without a mark are left out where not `kAll` have one.
template <bool kAll, int kApart>
__device__ __forceinline__ void multiply_columns(Scores& scores, unsigned tiles, const unsigned char* q,
                                                 const unsigned char* k, int c) {
  unsigned rows[kTilesEach][4];
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) load_matrices(rows[i], q + i * (16 * kWarps) * kApart + c * 32);
#pragma unroll
  for (int n = 0; n < kKeyTiles; n += 2) {
    unsigned keys[4];
    // fault(rows_of_k_in_two_banks) instead: load_matrices(keys, k + threadIdx.x % 8 * 3 * kApart + c * 32);
    load_matrices(keys, k + n * 8 * kApart + c * 32);
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
      const int on = kAll ? 1 : (int)(tiles & kMarkTile << i);
      multiply<!kAll>(scores[i][n], rows[i], keys[0], keys[1], on);
      multiply<!kAll>(scores[i][n + 1], rows[i], keys[2], keys[3], on);
    }
  }
}

/// scores = rows of the tile times rows of keys, which stand from there on in shared memory.
template <bool kAll, int kApart, int kOfRow>
__device__ __forceinline__ void multiply_rows(Scores& scores, unsigned tiles, const unsigned char* rows,
                                              const unsigned char* keys) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // fault(row_of_q) value: right + (lane % 16 < 8 ? 8 : -8) * kApart
  const unsigned char* const q = rows + (warp * 16 + lane % 16) * kApart + lane / 16 * 16;
  // fault(row_of_k) value: keys + lane % 16 * kApart + lane / 8 % 2 * 16
  const unsigned char* const k = keys + (lane / 16 * 8 + lane % 8) * kApart + lane / 8 % 2 * 16;
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[i][n][e] = 0;
    }
  }
#pragma unroll(kAll && !(kTransposed && kOfRow > 64) ? 4 : 1)
  for (int c = 0; c < (kOfRow + 15) / 16; ++c) multiply_columns<kAll, kApart>(scores, tiles, q, k, c);
}

/// sums += weights times rows of keys, which stand from there on in shared memory.
template <bool kAll, int kApart, int kTiles>
__device__ __forceinline__ void sum_rows(float (&sums)[kTilesEach][kTiles][4], const Scores& scores, unsigned tiles,
                                         const unsigned char* keys) {
  const int lane = threadIdx.x % 32;
  // fault(row_of_v) value: keys + (lane / 16 * 8 + lane % 8) * kApart + lane / 16 * 16
  const unsigned char* const v = keys + lane % 16 * kApart + lane / 16 * 16;
#pragma unroll
  for (int n = 0; n < kKeyTiles; n += 2) {
    unsigned weights[kTilesEach][4];
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        // fault(weights_of_the_other_keys) value: &scores[i][n + 1 - e / 2][e % 2 * 2]
        const float* const p = &scores[i][n + e / 2][e % 2 * 2];
        weights[i][e] = pack(p[0], p[1]);
      }
    }
#pragma unroll
    for (int c = 0; c < kTiles; c += 2) {
      unsigned columns[4];
      // fault(values_not_transposed) instead: load_matrices(columns, v + n * 8 * kApart + c * 16);
      load_transposed(columns, v + n * 8 * kApart + c * 16);
#pragma unroll
      for (int i = 0; i < kTilesEach; ++i) {
        // Without a fence all fragments of the keys are loaded ahead, and at 128 columns registers are spilled.
        constexpr bool kFenced = !kAll || kTiles > 8;
        const int on = (int)(tiles & kMarkTile << i);
        multiply<kFenced>(sums[i][c], weights[i], columns[0], columns[1], on);
        // fault(halves_of_b_swapped) instead: multiply<!kAll>(sums[i][c + 1], weights[i], columns[3], columns[2], on);
        multiply<kTransposed ? kFenced : !kAll>(sums[i][c + 1], weights[i], columns[2], columns[3], on);
      }
    }
  }
}

/// Puts use(row, tile of keys, key of it, value) into the place of every value. Loops that are not unrolled turn the
/// registers, because an index would put them on the stack.
template <int kTilesAtOnce, int kRowsAtOnce, typename Use>
__device__ __forceinline__ void each_pair(Scores& scores, const Use& use) {
#pragma unroll(kTilesAtOnce)
  for (int n = 0; n < kKeyTiles; ++n) {
    float now[kRowsEach][2];
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      now[i][0] = scores[i / 2][0][i % 2 * 2];
      now[i][1] = scores[i / 2][0][i % 2 * 2 + 1];
    }
#pragma unroll(kRowsAtOnce)
    for (int i = 0; i < kRowsEach; ++i) {
      const float x = use(i, n, 0, now[0][0]), y = use(i, n, 1, now[0][1]);
#pragma unroll
      for (int other = 0; other < kRowsEach - 1; ++other) {
        now[other][0] = now[other + 1][0];
        now[other][1] = now[other + 1][1];
      }
      now[kRowsEach - 1][0] = x;
      now[kRowsEach - 1][1] = y;
    }
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int other = 0; other < kKeyTiles - 1; ++other) scores[i][other][e] = scores[i][other + 1][e];
        scores[i][kKeyTiles - 1][e] = now[2 * i + e / 2][e % 2];
      }
    }
  }
}

/// Which halves of two are NaN or an infinity: the sign bit of each, and other bits that mean nothing.
__device__ __forceinline__ unsigned signs_of_strange(unsigned two) {
  constexpr unsigned kExponents = kStored == Element::f16 ? 0x7C007C00u : 0x7F807F80u;
  constexpr unsigned kLast = kStored == Element::f16 ? 0x04000400u : 0x00800080u;
  return (two & kExponents) + kLast;
}
__device__ __forceinline__ unsigned strange_of(unsigned two) { return signs_of_strange(two) & 0x80008000u; }
__device__ __forceinline__ unsigned without_strange(unsigned two) { return two & ~((strange_of(two) >> 15) * 0xFFFFu); }

/// Whether rows of keys have a NaN or an infinity in this thread's share of the block; puts zeros in their place where
/// `clear`.
template <int kApart, int kTiles>
__device__ __forceinline__ bool find_strange(unsigned char* rows, bool clear) {
  constexpr int kTwos = kTiles > 8 ? 1 : 2, kParts = 2 * kTiles / kTwos;  // of more columns registers are few
  unsigned found = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < kKeys * kParts; i += kThreads) {
    unsigned char* const at = rows + i / kParts * kApart + i % kParts * (8 * kTwos);
    uint4 x = {};
    if constexpr (kTwos == 2) {
      x = load_shared<uint4>(at);
      found |= signs_of_strange(x.z) | signs_of_strange(x.w);
    } else {
      const uint2 two = load_shared<uint2>(at);
      x = make_uint4(two.x, two.y, 0, 0);
    }
    found |= signs_of_strange(x.x) | signs_of_strange(x.y);
    if (!clear) continue;
    store_shared(at, make_uint2(without_strange(x.x), without_strange(x.y)));
    if constexpr (kTwos == 2) store_shared(at + 8, make_uint2(without_strange(x.z), without_strange(x.w)));
  }
  return (found & 0x80008000u) != 0;
}

/// Adds NaNs and infinities of `count` rows of keys to the rows that keep them, and takes them away: the product would
/// give them to every row.
template <int kApart, int kTiles>
__device__ __forceinline__ void add_strange(float (&sums)[kTilesEach][kTiles][4], const Kept& kept, int count,
                                            unsigned char* rows) {
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int k = 0; k < count; ++k) {
    unsigned keeps[kTilesEach];  // bit 0: the upper row, bit 2: the lower
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
      const unsigned of_key = __shfl_sync(0xFFFFFFFFu, kept_by_any(kept, i), (lane & ~3) | k % 8 / 2);
      keeps[i] = of_key >> (k / 8 * 4 + k % 2);
    }
    const unsigned char* const row = rows + k * kApart + lane % 4 * 4;
#pragma unroll 1
    for (int c = 0; c < kTiles; ++c) {
      const unsigned two = load_shared<unsigned>(row + c * 16), strange = strange_of(two);
      if (strange == 0) continue;
      const float x = strange & 0x8000u ? from_bits<kStored>((unsigned short)two) : -0.0f;
      const float y = strange & 0x80000000u ? from_bits<kStored>((unsigned short)(two >> 16)) : -0.0f;
      // An index would put them on the stack.
#pragma unroll
      for (int other = 0; other < kTiles; ++other) {
        if (other != c) continue;
#pragma unroll
        for (int i = 0; i < kRowsEach; ++i) {
          const bool is_kept = keeps[i / 2] >> (i % 2 * 2) & 1;
          sums[i / 2][other][i % 2 * 2] += is_kept ? x : -0.0f;
          sums[i / 2][other][i % 2 * 2 + 1] += is_kept ? y : -0.0f;
        }
      }
    }
  }
  __syncthreads();
  find_strange<kApart, kTiles>(rows, true);
  __syncthreads();
}
