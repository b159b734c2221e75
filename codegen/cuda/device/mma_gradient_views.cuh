#pragma once

#include "codegen/cuda/device/mma_stage.cuh"

// Where rows of Q, K, V and dO lie. A tile's rows stand in two tensors, its keys in two: 0 is what scores are products of,
// 1 what dP is the product of.

template <int kPart>
constexpr int kDimOf = kPart == 0 ? kDim : kDimV;
template <int kPart>
constexpr int kBytesOf = kPart == 0 ? kRowBytes : kValueBytes;
template <int kPart>
constexpr int kTilesOf = (kDimOf<kPart> + 15) / 16 * 2;  // of 8 columns

struct RowsOfTensor {
  const unsigned char* base;
  i64 step;  // bytes
};

struct Views {
  RowsOfTensor rows[2], keys[2];
  bool aligned;  // rows may be read 16 bytes at a time, and lie less than 2 GB apart
};

__device__ __forceinline__ Views open_views(const weft_args& a, Shared&, const Tile& t) {
  const int kv_head = kv_head_of(a, t.h);
  const int first_query = first_query_of(a, t.b), first_key = first_key_of(a, t.b);
  const RowsOfTensor q = {origin(a.q, t.b, t.h, first_query), a.q.stride_n * 2};
  const RowsOfTensor d_o = {origin(a.d_o, t.b, t.h, first_query), a.d_o.stride_n * 2};
  const RowsOfTensor k = {origin(a.k, t.b, kv_head, first_key), a.k.stride_n * 2};
  const RowsOfTensor v = {origin(a.v, t.b, kv_head, first_key), a.v.stride_n * 2};
  Views w = {{kTransposed ? k : q, kTransposed ? v : d_o}, {kTransposed ? q : k, kTransposed ? d_o : v}, false};
  unsigned odd = 0;
  bool near = true;
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    odd |= misalignment(w.rows[part].base, w.rows[part].step, 16) | misalignment(w.keys[part].base, w.keys[part].step, 16);
    near = near && (u64)w.keys[part].step <= kLargest;
  }
  w.aligned = kDim % 8 == 0 && kDimV % 8 == 0 && odd == 0 && near;
  return w;
}

template <int kPart>
__device__ __forceinline__ unsigned char* rows_of_tile(Shared& s) {
  return s.bytes + (kPart == 0 ? 0 : kRows * kRowBytes);
}
/// Of the first stage.
template <int kPart>
__device__ __forceinline__ unsigned char* rows_of_keys(Shared& s) {
  return s.bytes + kShape.tile_bytes() + (kPart == 0 ? 0 : kKeys * kRowBytes);
}

template <int kPart>
__device__ __forceinline__ void start_part(const weft_args& a, Shared& s, const Views& w, const Tile& t) {
  const RowsOfTensor rows = w.rows[kPart];
  start_rows_of_tile<kDimOf<kPart>>(t, rows_of_tile<kPart>(s), w.aligned, 0,
                                    [&](int r) { return rows.base + times(row_in_memory(s, t, r), rows.step); });
#pragma unroll
  for (int i = 0; i < kStages; ++i) clear_padding<kDimOf<kPart>>(rows_of_keys<kPart>(s) + i * kStageBytes, kKeys);
  if (threadIdx.x != 0) return;
  put(s.of_keys[kPart].base, w.keys[kPart].base);
  put(s.of_keys[kPart].step, w.keys[kPart].step);
  put(s.of_keys[kPart].aligned, (int)w.aligned);
  put(s.of_keys[kPart].first, t.key_begin - (int)a.row_begin);
}

/// Behind a barrier, before the zones are known: begins to copy the tile's rows, which arrive meanwhile. Also where those
/// of keys are.
__device__ __forceinline__ void start_tile(const weft_args& a, Shared& s, const Views& w, const Tile& t, int softmax) {
  start_part<0>(a, s, w, t);
  start_part<1>(a, s, w, t);
  if (threadIdx.x != 0) return;
  put(s.units, scale_of_gradients(a, t.b, t.h));
  if (!kTransposed || kDirect) return;
  const float2* const of_row = terms_at(a, softmax, t.b, t.h, (int)a.row_begin);
  put(s.terms_of_head, of_row - t.key_begin);
}

/// The terms of the tile's queries for a softmax, delta in units of dS; behind a barrier of the caller's.
__device__ __forceinline__ void load_row_terms(const weft_args& a, Shared& s, const Tile& t, int softmax) {
  if (kTransposed || threadIdx.x >= kRows) return;
  float2 terms = make_float2(0, 0);
  if (!kDirect) terms = load_written<float2>(terms_at(a, softmax, t.b, t.h, row_in_memory(s, t, threadIdx.x)));
  put(s.terms[threadIdx.x], make_float2(terms.x, terms.y * scale_of_gradients(a, t.b, t.h)));
}
