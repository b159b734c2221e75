#pragma once

#include "codegen/cuda/device/mma_lanes.cuh"
#include "codegen/cuda/device/mma_ptx.cuh"
#include "codegen/cuda/device/pairs.cuh"
#include "codegen/cuda/device/settle.cuh"

// Products of a block of keys by matrix instructions: rows by keys (S = Q K^T), and sums of rows of keys (O += P V). A
// warp has tiles of 16 rows; what the first kind gives are the operands of the second, in registers. Who computes them
// stands in mma_warps.cuh and mma_groups.cuh.

using Scores = float[kTilesEach][kKeyTiles][4];

/// Which of a warp's tiles of 16 rows a product is of: all, or one of two. Predicates would cost a WARPSYNC each.
enum Of { kOfAll, kOfFirst, kOfSecond };
template <Of kOf>
constexpr int kBeginOf = kOf == kOfSecond ? 1 : 0;
template <Of kOf>
constexpr int kEndOf = kOf == kOfFirst ? 1 : kTilesEach;

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

/// A bit for each of the warp's tiles of 16 rows that has a pair that counts, of kMarkTile on; for groups, whose warps must
/// agree, always all.
enum TileMark : unsigned { kMarkTile = 8, kMarkTiles = ((1 << kTilesEach) - 1) * kMarkTile };

template <Of kOf>
struct OfTiles {
  static constexpr Of kTiles = kOf;
};

/// Calls use() with the OfTiles of those that have a mark, unless none has.
template <typename Use>
__device__ __forceinline__ void each_marked(unsigned is, const Use& use) {
  if ((is & kMarkTiles) == kMarkTiles) {
    use(OfTiles<kOfAll>());
  } else if (kTilesEach > 1 && is & kMarkTile) {
    use(OfTiles<kOfFirst>());
  } else if (kTilesEach > 1 && is & kMarkTiles) {
    use(OfTiles<kOfSecond>());
  }
}

/// What a block of keys is, in one register: `Block::is`.
enum Mark : unsigned {
  kMarkPartial = 1,  // of partial zones; of a run: bounds decide
  kMarkMixed = 2,    // keys of full zones come before the partial ones
  kMarkStrange = 4,  // V has a NaN or an infinity
  // 8 and 16 are TileMark's.
  kMarkMasked = 32,  // pairs differ
  kMarkRun = 64,     // of a run: see next_run()
  kMarkOdd = 128,    // in the second stage
  kMarkAhead = 256,  // in the next block bounds decide
  kMarkCount = 512,  // times the number of keys
};
template <typename Block>
__device__ __forceinline__ int count_of(const Block& block) {
  return (int)(block.is / kMarkCount);
}
template <typename Block>
__device__ __forceinline__ int stage_of(const Block& block) {
  return kStages > 1 && block.is & kMarkOdd ? kStageBytes : 0;
}
template <typename Block>
__device__ __forceinline__ void mark(Block& block, Mark mark, bool on) {
  block.is = on ? block.is | mark : block.is & ~mark;
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

/// Calls use(place) for each part of the block's rows of keys, of so many bytes, that is this thread's share.
template <int kApart, int kTiles, int kBytes, typename Use>
__device__ __forceinline__ void each_part_of_rows(unsigned char* rows, const Use& use) {
  constexpr int kParts = 16 * kTiles / kBytes, kRowsAtOnce = kThreads / kParts;
  const unsigned thread = thread_anew();
  if constexpr (kThreads % kParts == 0 && kKeys % kRowsAtOnce == 0) {
    // From each row to the next there are as many bytes: one address serves all.
    unsigned char* const first = rows + place_of_byte<kApart>((int)(thread / kParts), (int)(thread % kParts) * kBytes);
#pragma unroll
    for (int row = 0; row < kKeys; row += kRowsAtOnce) use(first + place_of_byte<kApart>(row, 0));
  } else {
#pragma unroll 1
    for (int i = (int)thread; i < kKeys * kParts; i += kThreads)
      use(rows + place_of_byte<kApart>(i / kParts, i % kParts * kBytes));
  }
}

/// Whether rows of keys have a NaN or an infinity in this thread's share of the block.
template <int kApart, int kTiles>
__device__ __forceinline__ bool find_strange(unsigned char* rows) {
  constexpr int kBytes = kTiles > 8 ? 8 : 16;  // of more columns registers are few
  unsigned found = 0;
  each_part_of_rows<kApart, kTiles, kBytes>(rows, [&](const unsigned char* at) {
    if constexpr (kBytes == 16) {
      const uint4 x = load_shared<uint4>(at);
      found |= signs_of_strange(x.x) | signs_of_strange(x.y);
      found |= signs_of_strange(x.z) | signs_of_strange(x.w);
    } else {
      const uint2 x = load_shared<uint2>(at);
      found |= signs_of_strange(x.x) | signs_of_strange(x.y);
    }
  });
  return (found & 0x80008000u) != 0;
}

/// Puts zeros in their place, which hardly ever happens.
template <int kApart, int kTiles>
__device__ __forceinline__ void clear_strange(unsigned char* rows) {
#pragma unroll 1
  for (int i = threadIdx.x; i < kKeys * 4 * kTiles; i += kThreads) {
    unsigned char* const at = rows + place_of_byte<kApart>(i / (4 * kTiles), i % (4 * kTiles) * 4);
    store_shared(at, without_strange(load_shared<unsigned>(at)));
  }
}

/// Adds NaNs and infinities of `count` rows of keys to the rows that keep them, and takes them away: the product would
/// give them to every row.
template <int kApart, int kTiles>
__device__ __forceinline__ void add_strange(float (&sums)[kTilesEach][kTiles][4], const Kept& kept, int count,
                                            unsigned char* rows) {
  // Rarely come to: nothing of it is to wait in a register, where registers are not fewer still.
  const unsigned thread = kTwoProducts ? threadIdx.x : thread_anew();
  const int lane = (int)(thread % 32), first = first_key_of_warp(thread);
#pragma unroll 1
  for (int k = 0; k < of_warp(count); ++k) {
    unsigned keeps[kTilesEach];  // bit 0: the upper row, bit 2: the lower
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
      const unsigned of_key = __shfl_sync(0xFFFFFFFFu, kept_by_any(kept, i), (lane & ~3) | k % 8 / 2);
      keeps[i] = of_key >> (k / 8 * 4 + k % 2);
    }
    #pragma unroll 1
    for (int c = 0; c < kTiles; ++c) {
      const unsigned two = load_shared<unsigned>(rows + place_of<kApart>(first + k, c) + lane % 4 * 4), strange = strange_of(two);
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
  clear_strange<kApart, kTiles>(rows);
  show_groups();
  __syncthreads();
}
