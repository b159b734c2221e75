#pragma once

#include "codegen/cuda/device/block.cuh"

// Where borders of sequences stand in the GPU's memory: gradients of rows that no sequence has, before the first one and
// behind the last.

/// Of a packed tensor with so many rows and heads the block's share.
__device__ __forceinline__ void clear_rows(const weft_args& a, const weft_view& view, const int* cu, i64 rows, int heads,
                                           int columns) {
  if (view.data == nullptr) return;
  const i64 first = load_global<int>(cu);
  const i64 behind = load_global<int>(cu + a.batch);
  const i64 begin = (i64)blockIdx.x * kClearedRows, end = min(begin + kClearedRows, rows);
#pragma unroll 1
  for (i64 row = begin; row < end; ++row) {
    if (row >= first && row < behind) continue;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < heads * columns; i += kThreads) {
      const i64 at = times(i / columns, view.stride_h) + row * view.stride_n + i % columns;
      store1<kStored>((unsigned char*)view.data + at * kBytes<kStored>, 0.0f);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) weft_zeros(const weft_args a) {
  if (a.sizes.cu_q == nullptr) return;
  clear_rows(a, a.d_q, a.sizes.cu_q, a.sizes.rows_q, (int)a.heads, kDim);
  clear_rows(a, a.d_k, a.sizes.cu_k, a.sizes.rows_k, (int)a.kv_heads, kDim);
  clear_rows(a, a.d_v, a.sizes.cu_k, a.sizes.rows_k, (int)a.kv_heads, kDimV);
}
