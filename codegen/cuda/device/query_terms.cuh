#pragma once

#include "codegen/cuda/device/lse.cuh"

// What a query brings to the gradients of its pairs, for each softmax that it has: what scores are measured from, and
// delta. P = 2^(score - lse) and dS = P (dP - delta). A softmax that O has a share of has it in P.

/// Of a query and a softmax; `row` counts the sequence's rows.
__device__ __forceinline__ float2* terms_at(const weft_args& a, int softmax, int b, int h, int row) {
  const int head = softmax * (int)a.heads + h, place = first_query_of(a, b) + row - (int)a.row_begin;
  return (float2*)a.query_terms + (times(b, a.terms_stride_b) + times(head, a.terms_stride_h) + place);
}

/// What dS is multiplied by where it becomes an f16, which has no small numbers: a power of two from the largest dO of
/// the heads that share keys, which weft_terms finds.
__device__ __forceinline__ float scale_of_gradients(const weft_args& a, int b, int h) {
  if (!kScalesGradients) return 1;
  const unsigned most = load_written<unsigned>(a.d_o_bounds + (b * (int)a.kv_heads + kv_head_of(a, h)));
  return most == 0 ? 1 : __uint_as_float((min(max(251 - (int)(most >> 23), 2), 252) << 23));
}

/// dLSE of a row, of the pattern's or of that of branch `slot`; 0 where none is given.
__device__ __forceinline__ float d_lse_of(const weft_args& a, int slot, int b, int h, int row) {
  if (a.d_lse == nullptr) return 0;
  const float* const of_head = a.d_lse + times(b, a.d_lse_stride_b) + times(h, a.d_lse_stride_h);
  return load_global<float>(of_head + (slot < 0 ? 0 : times(slot, a.d_lse_stride)) + row);
}
