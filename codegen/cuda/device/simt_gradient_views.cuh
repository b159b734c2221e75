#pragma once

#include "codegen/cuda/device/query_terms.cuh"
#include "codegen/cuda/device/simt_stage.cuh"

// Where rows of Q, K, V and dO are. A tile's rows stand in two tensors, its keys in two: 0 is what scores are products
// of, 1 what dP is the product of.

template <int kPart>
constexpr Tensor kOfRows = kPart == 0 ? (kTransposed ? kK : kQ) : kTransposed ? kV : kDO;
template <int kPart>
constexpr Tensor kOfKeys = kPart == 0 ? (kTransposed ? kQ : kK) : kTransposed ? kDO : kV;
template <int kPart>
constexpr int kDimOf = kPart == 0 ? kDim : kDimV;

/// What is known before any row is read: the rest stands in shared memory.
struct Views {
  bool aligned;                 // may rows be read 16 bytes at a time?
  const unsigned char* row[2];  // first column that the thread stages of its row
};

/// One thread a tensor finds where its rows begin.
__device__ __forceinline__ void open_view(const weft_args& a, Shared& s, const Tile& t, int tensor) {
  // Words are picked one by one, because arguments cannot be indexed.
  const auto pick = [&](auto q, auto k, auto v, auto d_o) {
    return tensor == kQ ? q : tensor == kK ? k : tensor == kV ? v : d_o;
  };
  const bool of_keys = tensor == kK || tensor == kV;
  const int h = of_keys ? kv_head_of(a, t.h) : t.h;
  const i64 step = pick(a.q.stride_n, a.k.stride_n, a.v.stride_n, a.d_o.stride_n) * kBytes<kStored>;
  const i64 row = times(t.b, pick(a.q.stride_b, a.k.stride_b, a.v.stride_b, a.d_o.stride_b)) +
                  times(h, pick(a.q.stride_h, a.k.stride_h, a.v.stride_h, a.d_o.stride_h)) +
                  times(of_keys ? first_key_of(a, t.b) : first_query_of(a, t.b),
                        pick(a.q.stride_n, a.k.stride_n, a.v.stride_n, a.d_o.stride_n));
  unsigned char* const base =
      (unsigned char*)pick(a.q.data, a.k.data, a.v.data, a.d_o.data) + row * kBytes<kStored>;
  put(s.views[tensor].base, base);
  put(s.views[tensor].step, step);
  put(s.misaligned[tensor], (int)(((unsigned)(u64)base | (unsigned)step) & 15));
}

/// Where a row of the sequence has its row of a tensor.
__device__ __forceinline__ const unsigned char* row_of_tensor(const Shared& s, Tensor tensor, int row) {
  return get(s.views[tensor].base) + times(row, get(s.views[tensor].step));
}

__device__ __forceinline__ Views open_views(const weft_args& a, Shared& s, const Tile& t) {
  if (threadIdx.x < kTensors) open_view(a, s, t, threadIdx.x);
  __syncthreads();
  const int row = row_in_memory(s, t, threadIdx.x % kRows);
  const int from = threadIdx.x / kRows * (kRowColumns * kBytes<kStored>);
  const int misaligned =
      get(s.misaligned[kQ]) | get(s.misaligned[kK]) | get(s.misaligned[kV]) | get(s.misaligned[kDO]);
  const bool whole = kDim % kDepth == 0 && kDimV % kDepth == 0 && kDim == kColumns &&
                     (!kTransposed || kDimV == kColumns);
  return {whole && misaligned == 0,
          {row_of_tensor(s, kOfRows<0>, row) + from, row_of_tensor(s, kOfRows<1>, row) + from}};
}

/// Rows are staged chunk by chunk with the products.
__device__ __forceinline__ void start_tile(const weft_args&, Shared&, const Views&, const Tile&, int) {}

/// The terms of the tile's queries for a softmax; behind a barrier of the caller's.
__device__ __forceinline__ void load_row_terms(const weft_args& a, Shared& s, const Tile& t, int softmax) {
  if (kTransposed || threadIdx.x >= kRows) return;
  const float2* const at = terms_at(a, softmax, t.b, t.h, row_in_memory(s, t, threadIdx.x));
  put(s.terms[threadIdx.x], kDirect ? make_float2(0, 0) : load_written<float2>(at));
}

/// Two products' worth of a thread: see Rows.
struct BothRows {
  Rows of[2];
};

/// Also notes of each key where its two rows are, and of queries their terms.
__device__ __forceinline__ BothRows rows_of_thread(const weft_args& a, Shared& s, const Views& w, const Tile& t,
                                                   int from, int count, int softmax) {
  const unsigned thread = thread_anew();
  const int number = from + min((int)thread % kKeys, count - 1);
  const int row = row_of_key(a, t.key_begin, get(s.key[number]));
  const unsigned char *const first = row_of_tensor(s, kOfKeys<0>, row), *const second = row_of_tensor(s, kOfKeys<1>, row);
  if (thread < kKeys) {
    put(s.value_row[0][place_of(thread)], first);
    put(s.value_row[1][place_of(thread)], second);
    if (kTransposed)
      put(s.terms[thread], kDirect ? make_float2(0, 0) : load_written<float2>(terms_at(a, softmax, t.b, t.h, row)));
  }
  const int column = thread / kKeys * (kKeyColumns * kBytes<kStored>);
  return {{{w.row[0], first + column}, {w.row[1], second + column}}};
}
