#pragma once

#include "codegen/cuda/device/mma_stage.cuh"
#include "codegen/cuda/device/pairs.cuh"

// Where rows of Q, K and V lie.

struct Views {
  const unsigned char *q, *k, *v;
  i64 q_step, k_step, v_step;  // bytes
  i64 q_head;                  // between heads that share the tile
  i64 k_page, v_page;          // between pages
  bool aligned;                // rows may be read 16 bytes at a time, and lie less than 2 GB apart
};

__device__ __forceinline__ Views open_views(const weft_args& a, Shared&, const Tile& t) {
  const int kv_head = kv_head_of(a, t.h);
  Views w;
  w.q = origin(a.q, t.b, t.h, t.first_row);
  const int first_key = first_key_of(a, t.b);
  w.k = origin(a.k, kPaged ? 0 : t.b, kv_head, first_key);
  w.v = origin(a.v, kPaged ? 0 : t.b, kv_head, first_key);
  w.q_step = a.q.stride_n * 2;
  w.q_head = kSharesTiles ? a.q.stride_h * 2 : 0;
  w.k_step = a.k.stride_n * 2;
  w.v_step = a.v.stride_n * 2;
  w.k_page = a.k.stride_b * 2;
  w.v_page = a.v.stride_b * 2;
  unsigned odd = misalignment(w.q, w.q_step, 16) | misalignment(w.k, w.k_step, 16) | misalignment(w.v, w.v_step, 16);
  if (kSharesTiles) odd |= misalignment(w.q, w.q_head, 16);
  if (kPaged) odd |= misalignment(w.k, w.k_page, 16) | misalignment(w.v, w.v_page, 16);
  const bool near = (u64)w.k_step <= kLargest && (u64)w.v_step <= kLargest;
  w.aligned = kDim % 8 == 0 && kDimV % 8 == 0 && odd == 0 && near;
  return w;
}

__device__ __forceinline__ unsigned char* q_rows(Shared& s) { return s.bytes; }
__device__ __forceinline__ unsigned char* k_rows(Shared& s) { return s.bytes + kRows * kRowBytes; }  // of the first stage
__device__ __forceinline__ unsigned char* v_rows(Shared& s) { return s.bytes + (kRows + kKeys) * kRowBytes; }

/// Behind a barrier, before the zones are known: begins to copy the tile's rows of Q, which arrive meanwhile. Also what no
/// copy ever writes, and where keys and values are.
template <typename Pairs = PlainPairs>
__device__ __forceinline__ void start_tile(const weft_args& a, Shared& s, const Views& w, const Tile& t) {
  const auto row_of_q = [&](int r) {
    return w.q + times(row_in_memory(s, t, r), w.q_step) + times(head_of_row(s, r), w.q_head);
  };
  // Scores of plain pairs are only scaled: a sign of the scale is one of Q.
  start_rows_of_tile<kDim>(t, q_rows(s), w.aligned, !Pairs::kScored && a.scale < 0 ? 0x80008000u : 0, row_of_q);
  if (threadIdx.x == 0) {
    put(s.keys.base, w.k);
    put(s.keys.step, w.k_step);
    put(s.keys.page, w.k_page);
    put(s.keys.aligned, (int)w.aligned);
    put(s.values.base, w.v);
    put(s.values.step, w.v_step);
    put(s.values.page, w.v_page);
    put(s.values.aligned, (int)w.aligned);
  }
#pragma unroll
  for (int i = 0; i < kStages; ++i) {
    clear_padding<kDim>(k_rows(s) + i * kStageBytes, kKeys);
    clear_padding<kDimV>(v_rows(s) + i * kStageBytes, kKeys);
  }
}
