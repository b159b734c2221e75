#pragma once

#include "codegen/cuda/device/pairs.cuh"
#include "codegen/cuda/device/simt_stage.cuh"

// Where rows of Q, K and V are.

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
  const int b = kPaged && of_keys ? 0 : t.b, h = of_keys ? kv_head_of(a, t.h) : t.h;
  const i64 step = pick(a.q.stride_n, a.k.stride_n, a.v.stride_n) * kBytes<kStored>;
  const i64 row = times(b, pick(a.q.stride_b, a.k.stride_b, a.v.stride_b)) +
                  times(h, pick(a.q.stride_h, a.k.stride_h, a.v.stride_h)) +
                  times(of_keys ? first_key_of(a, t.b) : t.first_row, pick(a.q.stride_n, a.k.stride_n, a.v.stride_n));
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
                                 threadIdx.x / kRows * (kRowColumns * kBytes<kStored>);
  const int misaligned = get(s.misaligned[kQ]) | get(s.misaligned[kK]) | get(s.misaligned[kV]);
  return {kDim % kDepth == 0 && kDimV == kColumns && misaligned == 0, q};
}

/// Rows are staged chunk by chunk with the products.
template <typename Pairs = PlainPairs>
__device__ __forceinline__ void start_tile(const weft_args&, Shared&, const Views&, const Tile&) {}

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
