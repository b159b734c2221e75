#pragma once

#include "codegen/cuda/device/mask.cuh"

// From tensors in global memory to f32 in shared memory. Products are streams: while a chunk of columns of the tile's
// rows and of keys, or of rows of values, is multiplied, the next one is under way in registers; it is stored in the
// other half of the stage before the barrier that ends the chunk. f16 and bf16 become f32 here, once. In the forward pass
// rows are those of Q, keys of K and values of V; the backward pass has more products of this kind.

constexpr int kRowColumns = kDepth * kRows / kThreads, kKeyColumns = kDepth * kKeys / kThreads;  // of a thread

/// Neighbouring elements of a row on their way from global memory, as stored.
template <int kCount>
struct Packed {
  unsigned words[kCount * kBytes<kStored> / 4];
};

template <int kCount>
__device__ __forceinline__ Packed<kCount> load_packed(const unsigned char* from) {
  constexpr int kWords = kCount * kBytes<kStored> / 4;
  Packed<kCount> x;
  if constexpr (kWords == 1) x.words[0] = load_global<unsigned>(from);
  if constexpr (kWords == 2) {
    const uint2 two = load_global<uint2>(from);
    x.words[0] = two.x;
    x.words[1] = two.y;
  }
#pragma unroll
  for (int i = 0; i < kWords / 4; ++i) {
    const uint4 four = load_global<uint4>(from + 16 * i);
    x.words[4 * i] = four.x;
    x.words[4 * i + 1] = four.y;
    x.words[4 * i + 2] = four.z;
    x.words[4 * i + 3] = four.w;
  }
  return x;
}

template <int kCount>
__device__ __forceinline__ float element(const Packed<kCount>& x, int i) {
  if constexpr (kStored == Element::f32) return __uint_as_float(x.words[i]);
  const unsigned two = x.words[i / 2];
  if constexpr (kStored == Element::bf16) return __uint_as_float(i % 2 == 0 ? two << 16 : two & 0xFFFF0000u);
  return from_half((unsigned short)(i % 2 == 0 ? two : two >> 16));
}

/// What a thread brings to the stage: from its own first column on a row of the tile and one of a key. Values go by the
/// block's keys.
struct Rows {
  const unsigned char *row, *key;
};

/// The logarithm to base 2 of how many branches keep a key of full zones.
__device__ __forceinline__ float weight_of_key(Shared& s, int number) {
  return kCounts ? log2_approx(get(s.key_weight[number])) : 0;
}

struct ChunkOfColumns {
  Packed<kRowColumns> row;
  Packed<kKeyColumns> key;
};

/// The chunk that begins `at` bytes behind the first columns.
__device__ __forceinline__ ChunkOfColumns load_columns(const Rows& rows, unsigned at) {
  // fault(column_twice) instead: return {load_packed<kRowColumns>(rows.row), load_packed<kKeyColumns>(rows.key + at)};
  return {load_packed<kRowColumns>(rows.row + at), load_packed<kKeyColumns>(rows.key + at)};
}

/// Where in half of the stage a thread stores columns of rows and of keys, in bytes. A warp stores one column of 32 rows
/// at a time.
struct Places {
  int row, key;
};
__device__ __forceinline__ Places places_of_columns() {
  return {kept(4 * (threadIdx.x / kRows * (kRowColumns * kRows) + threadIdx.x % kRows)),
          kept(4 * (kDepth * kRows + threadIdx.x / kKeys * (kKeyColumns * kKeys) + threadIdx.x % kKeys))};
}

/// Transposed, in the half of the stage that begins at byte `half`.
__device__ __forceinline__ void store_columns(Shared& s, const Places& places, int half, const ChunkOfColumns& x) {
  float* const row = beyond(s.stage, places.row + half);
  float* const key = beyond(s.stage, places.key + half);
#pragma unroll
  for (int c = 0; c < kRowColumns; ++c) store_shared(row + c * kRows, element(x.row, c));
#pragma unroll
  for (int c = 0; c < kKeyColumns; ++c) store_shared(key + c * kKeys, element(x.key, c));
}

/// The same where rows start or step anywhere, element by element; zeros behind the last column.
template <int kColumnsThereAre>
__device__ __forceinline__ void stage_each_column(float* half, const Rows& rows, int chunk) {
  float* const row = half + threadIdx.x % kRows;
  float* const key = half + kDepth * kRows + threadIdx.x % kKeys;
  const int of_row = threadIdx.x / kRows * kRowColumns, of_key = threadIdx.x / kKeys * kKeyColumns;
#pragma unroll 1
  for (int c = 0; c < kRowColumns; ++c) {
    const bool inside = chunk * kDepth + of_row + c < kColumnsThereAre;
    store_shared(row + (of_row + c) * kRows,
                 inside ? load1<kStored>(rows.row + (chunk * kDepth + c) * kBytes<kStored>) : 0);
  }
#pragma unroll 1
  for (int c = 0; c < kKeyColumns; ++c) {
    const bool inside = chunk * kDepth + of_key + c < kColumnsThereAre;
    store_shared(key + (of_key + c) * kKeys,
                 inside ? load1<kStored>(rows.key + (chunk * kDepth + c) * kBytes<kStored>) : 0);
  }
}

// Of a chunk of values: fours of columns, one behind the other.
constexpr int kFoursARow = (kColumns + 3) / 4, kFoursAChunk = kStaged * kFoursARow;
constexpr int kValueFours = (kFoursAChunk + kThreads - 1) / kThreads;  // of a thread

struct ChunkOfValues {
  Packed<4> v[kValueFours];
};

/// Where rows of values are, by the places of the block's keys.
using ValueRows = const unsigned char* const*;

/// The chunk that begins with key `first` of the block.
__device__ __forceinline__ ChunkOfValues load_values(ValueRows value_rows, int first) {
  ChunkOfValues x;
#pragma unroll
  for (int i = 0; i < kValueFours; ++i) {
    const int four = min((int)threadIdx.x + i * kThreads, kFoursAChunk - 1);
    const unsigned char* const row = get(value_rows[first + four / kFoursARow]);
    x.v[i] = load_packed<4>(row + four % kFoursARow * (4 * kBytes<kStored>));
  }
  return x;
}

__device__ __forceinline__ void store_values(float* half, const ChunkOfValues& x) {
#pragma unroll
  for (int i = 0; i < kValueFours; ++i) {
    const int four = (int)threadIdx.x + i * kThreads;
    const float4 v = make_float4(element(x.v[i], 0), element(x.v[i], 1), element(x.v[i], 2), element(x.v[i], 3));
    if (kFoursAChunk % kThreads == 0 || four < kFoursAChunk) store_shared(half + 4 * four, v);
  }
}

template <int kColumnsThereAre>
__device__ __forceinline__ void stage_each_value(float* half, ValueRows value_rows, int first) {
#pragma unroll 1
  for (int four = threadIdx.x; four < kFoursAChunk; four += kThreads) {
    const unsigned char* const row = get(value_rows[first + four / kFoursARow]);
#pragma unroll 1
    for (int column = four % kFoursARow * 4, i = 4 * four; i < 4 * four + 4; ++column, ++i)
      store_shared(half + i, column < kColumnsThereAre ? load1<kStored>(row + column * kBytes<kStored>) : 0);
  }
}
