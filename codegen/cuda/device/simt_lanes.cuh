#pragma once

#include "codegen/cuda/device/carried.cuh"

// Who computes what, in the SIMT class. 4 warps share a tile of rows and a block of keys. A warp owns 32 whole rows, so
// that P and the softmax stay inside it; above 128 columns of V two warps share 32 rows, each with half of the keys and
// half of the columns. A thread has 8 rows, and 4 or 8 keys of S, and an eighth of its warp's columns of O.

constexpr int kRowsEach = 8, kKeysEach = kKeys / (8 * kColumnWarps);
constexpr int kColumnsEach = kColumns / (8 * kColumnWarps);
constexpr int kFours = kColumnsEach / 4;           // groups of 32 columns, four to a lane
constexpr bool kTwo = (kColumnsEach & 2) != 0;     // a group of 16 columns, two to a lane
constexpr bool kSingle = (kColumnsEach & 1) != 0;  // a group of 8 columns, one to a lane
static_assert(kWarps == 4 && kRows == 32 * kWarps / kColumnWarps && kKeysEach % 4 == 0);

/// Keys of P in shared memory at a time.
constexpr int kPartKeys = 32 * kColumnWarps, kParts = kKeys / kPartKeys;

__device__ __forceinline__ int warp_of_rows(unsigned thread = threadIdx.x) { return thread / 32 / kColumnWarps; }
__device__ __forceinline__ int warp_of_columns() { return threadIdx.x / 32 % kColumnWarps; }

/// Of the 8 lanes that share rows, and of the 4 that share keys and columns. Neighbours share keys, lanes two apart
/// rows: loads of 128 bits by which lane pairs want the same take half the time.
__device__ __forceinline__ int lane_of_row() { return threadIdx.x / 2 % 8; }
__device__ __forceinline__ int lane_of_column(unsigned thread = threadIdx.x) {
  return thread % 2 + thread / 16 % 2 * 2;
}

/// The thread's row r, key j, column c. Four neighbours each, the next four of a thread 16 rows or 32 keys apart: so
/// that a warp's loads of 128 bits lie side by side.
__device__ __forceinline__ int row_of(int r, unsigned thread = threadIdx.x) {
  return 32 * warp_of_rows(thread) + r / 4 * 16 + 4 * lane_of_column(thread) + r % 4;
}
__device__ __forceinline__ int key_of(int j) {
  return j / 4 * kPartKeys + 32 * warp_of_columns() + 4 * lane_of_row() + j % 4;
}
__device__ __forceinline__ int column_of(int c) {
  const int lane = lane_of_row(), first = warp_of_columns() * (kColumns / kColumnWarps);
  if (c < 4 * kFours) return first + c / 4 * 32 + 4 * lane + c % 4;
  if (kTwo && c < 4 * kFours + 2) return first + 32 * kFours + 2 * lane + c % 2;
  return first + kColumns / kColumnWarps - 8 + lane;
}

/// The place of a block's key in P and V as staged: places 8 i .. 8 i + 7 are keys 4 lane + i of the lanes, so that how
/// rows of P change places is known when the loop over a chunk's keys is unrolled.
__device__ __forceinline__ int place_of(int key) {
  const int in_part = key % kPartKeys;
  return key - in_part + in_part % 4 * (kPartKeys / 4) + in_part / 4;
}

/// P of a part of the keys for the rows of this warp.
__device__ __forceinline__ float* part_of_rows(Shared& s) { return s.weights + warp_of_rows() * (kPartKeys * 32); }

/// Where in P four rows, 4 * lane or 16 more, stand for one key. They change places by the key, so that the 4 × 4
/// results of a thread are stored without bank conflicts.
struct FourRows {
  float *plain, *crossed;
  __device__ __forceinline__ float* at(int place, int r) const {
    return (place % 2 == 0 ? plain : crossed) + place * 32 + ((r / 4 + place / 2) % 2) * 16;
  }
};
__device__ __forceinline__ FourRows four_rows(Shared& s) {
  return {part_of_rows(s) + 4 * lane_of_column(), part_of_rows(s) + 4 * (lane_of_column() ^ 2)};
}

/// Between threads that share P.
__device__ __forceinline__ void sync_rows() {
  if constexpr (kColumnWarps > 1) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

/// Of rows that two warps share: room for a number from each, where nothing is staged between the products.
__device__ __forceinline__ float& shared_number(Shared& s, int warp, int row) {
  return s.stage[kStageHalf + warp * kRows + row];
}

/// The largest over the 8 lanes that share a row. A NaN loses, and reaches its row through the sum.
__device__ __forceinline__ float largest_of_row(float x) {
#pragma unroll
  for (int apart = 2; apart < 16; apart *= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, apart));
  return x;
}

__device__ __forceinline__ float sum_of_row(float x) {
  // fault(row_sum_of_two_lanes) also: return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
#pragma unroll
  for (int apart = 2; apart < 16; apart *= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, apart);
  return x;
}

/// Pairs as bits: word i is four of the thread's keys, of its bits 8 * j + r is row r and key j of them.
constexpr int kBitWords = kKeysEach / 4;
constexpr unsigned kAllBits = ~0u;
static_assert(4 * kRowsEach == 32);
__device__ __forceinline__ int row_of_bit(int, int bit) { return row_of(bit % 8); }
__device__ __forceinline__ int key_of_bit(int word, int bit) { return key_of(4 * word + bit / 8); }

/// The pairs of a word that the term keeps, but for those it asks for one by one.
__device__ __forceinline__ unsigned keep_by_term(Shared& s, int word, bool negated, int, int, bool) {
  unsigned bits = 0;
  const int4 y = load_shared<int4>(&s.meets.key[key_of(4 * word)]);
  int4 fails = {}, value = {};
  if (kConditions > 0) fails = load_shared<int4>(&s.meets.fails[key_of(4 * word)]);
  if (kByValues) value = load_shared<int4>(&s.meets.value[key_of(4 * word)]);
  const OfKey keys[4] = {{y.x, value.x, (unsigned)fails.x},
                         {y.y, value.y, (unsigned)fails.y},
                         {y.z, value.z, (unsigned)fails.z},
                         {y.w, value.w, (unsigned)fails.w}};
#pragma unroll 1
  for (int r = 0; r < kRowsEach; ++r) {
    const OfRow row = of_row(s, row_of(r));
#pragma unroll
    for (int j = 0; j < 4; ++j) bits |= (keeps(row, keys[j], negated) ? 1u : 0u) << (8 * j + r);
  }
  return bits;
}
