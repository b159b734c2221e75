#pragma once

#include "codegen/cuda/device/mask.cuh"

// From Q, K and V in global memory to f32 in shared memory. Both products are streams: while a chunk of columns of Q
// and K, or of rows of V, is multiplied, the next one is under way in registers; it is stored in the other half of the
// stage before the barrier that ends the chunk. f16 and bf16 become f32 here, once.

constexpr int kQueryColumns = kDepth * kRows / kThreads, kKeyColumns = kDepth * kKeys / kThreads;  // of a thread

/// What is known of Q, K and V before any row of them is read: the rest stands in shared memory.
struct Views {
  bool aligned;            // may rows be read 16 bytes at a time?
  const unsigned char* q;  // first column of Q that the thread stages
};

/// One thread a tensor finds where its rows begin. K and V of a paged cache begin with page 0.
__device__ __forceinline__ void open_view(const weft_args& a, Shared& s, const Tile& t, int tensor) {
  // Words are picked one by one, because arguments cannot be indexed.
  const auto pick = [&](auto q, auto k, auto v) { return tensor == kQ ? q : tensor == kK ? k : v; };
  const bool of_keys = tensor != kQ;
  const int b = kPaged && of_keys ? 0 : t.b, h = of_keys ? t.h / ((int)a.heads / (int)a.kv_heads) : t.h;
  const i64 step = pick(a.q.stride_n, a.k.stride_n, a.v.stride_n) * kBytes<kStored>;
  const i64 row = times(b, pick(a.q.stride_b, a.k.stride_b, a.v.stride_b)) +
                  times(h, pick(a.q.stride_h, a.k.stride_h, a.v.stride_h));
  unsigned char* const base = (unsigned char*)pick(a.q.data, a.k.data, a.v.data) + row * kBytes<kStored>;
  unsigned misaligned = (unsigned)(u64)base | (unsigned)step;
  if (kSharesTiles && !of_keys) misaligned |= (unsigned)a.q.stride_h * kBytes<kStored>;
  if (kPaged && of_keys) misaligned |= (unsigned)pick(0, a.k.stride_b, a.v.stride_b) * kBytes<kStored>;
  put(s.views[tensor].base, base);
  put(s.views[tensor].step, step);
  put(s.misaligned[tensor], (int)(misaligned & 15));
}

__device__ __forceinline__ Views open_views(const weft_args& a, Shared& s, const Tile& t) {
  if (threadIdx.x < kTensors) open_view(a, s, t, threadIdx.x);
  constexpr float kToBaseTwo = 1.44269504088896341f;
  if (threadIdx.x == 0) put(s.scale, (float)a.scale * kToBaseTwo);
  __syncthreads();
  const int row = threadIdx.x % kRows;
  const unsigned char* const q = get(s.views[kQ].base) + times(row_in_memory(s, t, row), get(s.views[kQ].step)) +
                                 times(head_of_row(s, row), a.q.stride_h * kBytes<kStored>) +
                                 threadIdx.x / kRows * (kQueryColumns * kBytes<kStored>);
  const int misaligned = get(s.misaligned[kQ]) | get(s.misaligned[kK]) | get(s.misaligned[kV]);
  return {kDim % kDepth == 0 && kDimV == kColumns && misaligned == 0, q};
}

/// Where a key has its row of K or V.
__device__ __forceinline__ const unsigned char* row_of_key(const weft_args& a, const Shared& s, const Tile& t,
                                                           Tensor tensor, int key) {
  const unsigned char* const base = get(s.views[tensor].base);
  const i64 step = get(s.views[tensor].step);
  if (!kPaged) return base + times(key, step);
  const int page = key / (int)a.page_size;
  const i64 page_step = (tensor == kK ? a.k.stride_b : a.v.stride_b) * kBytes<kStored>;
  return base + times(page_number(a, t.b, page), page_step) +
         times(key - page * (int)a.page_size, step);
}

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

constexpr int kChunks = (kDim + kDepth - 1) / kDepth;

/// What a thread brings to the stage: from its own first column on a row of Q and one of K. V goes by the block's keys.
struct Rows {
  const unsigned char *q, *k;
};

/// The logarithm to base 2 of how many branches keep a key of full zones.
__device__ __forceinline__ float weight_of_key(Shared& s, int number) {
  return kCounts ? log2_approx(get(s.key_weight[number])) : 0;
}

/// Also notes of each key where its scores start, which is the logarithm of its weight times `unit`, and where its row
/// of V is.
__device__ __forceinline__ Rows rows_of_thread(const weft_args& a, Shared& s, const Views& w, const Tile& t, int from,
                                               int count, float unit) {
  const unsigned thread = thread_anew();
  const int number = from + min((int)thread % kKeys, count - 1);
  // fault(key_beyond_the_last) value: right + 1
  const int key = get(s.key[number]);
  if (thread < kKeys) {
    // fault(multiplicity_ignored_in_whole_blocks) instead: put(s.start[thread], 0.0f);
    put(s.start[thread], weight_of_key(s, number) * unit);
    // fault(values_in_another_order) instead: put(s.value_row[thread], row_of_key(a, s, t, kV, key));
    put(s.value_row[place_of(thread)], row_of_key(a, s, t, kV, key));
  }
  return {w.q, row_of_key(a, s, t, kK, key) + thread / kKeys * (kKeyColumns * kBytes<kStored>)};
}

struct ChunkOfColumns {
  Packed<kQueryColumns> q;
  Packed<kKeyColumns> k;
};

/// The chunk that begins `at` bytes behind the first columns.
__device__ __forceinline__ ChunkOfColumns load_columns(const Rows& rows, unsigned at) {
  // fault(column_twice) instead: return {load_packed<kQueryColumns>(rows.q), load_packed<kKeyColumns>(rows.k + at)};
  return {load_packed<kQueryColumns>(rows.q + at), load_packed<kKeyColumns>(rows.k + at)};
}

/// Where in half of the stage a thread stores columns of Q and of K, in bytes. A warp stores one column of 32 rows at a
/// time.
struct Places {
  int q, k;
};
__device__ __forceinline__ Places places_of_columns() {
  return {kept(4 * (threadIdx.x / kRows * (kQueryColumns * kRows) + threadIdx.x % kRows)),
          kept(4 * (kDepth * kRows + threadIdx.x / kKeys * (kKeyColumns * kKeys) + threadIdx.x % kKeys))};
}

/// Transposed, in the half of the stage that begins at byte `half`.
__device__ __forceinline__ void store_columns(Shared& s, const Places& places, int half, const ChunkOfColumns& x) {
  float* const q = beyond(s.stage, places.q + half);
  float* const k = beyond(s.stage, places.k + half);
#pragma unroll
  for (int c = 0; c < kQueryColumns; ++c) store_shared(q + c * kRows, element(x.q, c));
#pragma unroll
  for (int c = 0; c < kKeyColumns; ++c) store_shared(k + c * kKeys, element(x.k, c));
}

/// The same where rows start or step anywhere, element by element; zeros behind the last column.
__device__ __forceinline__ void stage_each_column(float* half, const Rows& rows, int chunk) {
  float* const q = half + threadIdx.x % kRows;
  float* const k = half + kDepth * kRows + threadIdx.x % kKeys;
  const int first_q = threadIdx.x / kRows * kQueryColumns, first_k = threadIdx.x / kKeys * kKeyColumns;
#pragma unroll 1
  for (int c = 0; c < kQueryColumns; ++c) {
    const bool inside = chunk * kDepth + first_q + c < kDim;
    store_shared(q + (first_q + c) * kRows,
                 inside ? load1<kStored>(rows.q + (chunk * kDepth + c) * kBytes<kStored>) : 0);
  }
#pragma unroll 1
  for (int c = 0; c < kKeyColumns; ++c) {
    const bool inside = chunk * kDepth + first_k + c < kDim;
    store_shared(k + (first_k + c) * kKeys,
                 inside ? load1<kStored>(rows.k + (chunk * kDepth + c) * kBytes<kStored>) : 0);
  }
}

// Of a chunk of V: fours of columns, one behind the other.
constexpr int kFoursARow = (kColumns + 3) / 4, kFoursAChunk = kStaged * kFoursARow;
constexpr int kValueFours = (kFoursAChunk + kThreads - 1) / kThreads;  // of a thread

struct ChunkOfValues {
  Packed<4> v[kValueFours];
};

/// The chunk that begins with key `first` of the block.
__device__ __forceinline__ ChunkOfValues load_values(Shared& s, int first) {
  ChunkOfValues x;
#pragma unroll
  for (int i = 0; i < kValueFours; ++i) {
    const int four = min((int)threadIdx.x + i * kThreads, kFoursAChunk - 1);
    const unsigned char* const row = get(s.value_row[first + four / kFoursARow]);
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

__device__ __forceinline__ void stage_each_value(float* half, Shared& s, int first) {
#pragma unroll 1
  for (int four = threadIdx.x; four < kFoursAChunk; four += kThreads) {
    const unsigned char* const row = get(s.value_row[first + four / kFoursARow]);
#pragma unroll 1
    for (int column = four % kFoursARow * 4, i = 4 * four; i < 4 * four + 4; ++column, ++i)
      store_shared(half + i, column < kDimV ? load1<kStored>(row + column * kBytes<kStored>) : 0);
  }
}
