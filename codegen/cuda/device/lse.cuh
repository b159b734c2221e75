#pragma once

#include "codegen/cuda/device/tile.cuh"

// The log-sum-exp of a row's scores.

/// Where that of a head's rows goes: the pattern's, or that of branch `slot`. Null where nobody asked for it.
__device__ __forceinline__ float* lse_of_head(const weft_args& a, int b, int h, int slot) {
  if (!kHasSlots || slot < 0)
    return a.lse == nullptr ? nullptr : a.lse + times(b, a.lse_stride_b) + times(h, a.lse_stride_h);
  return a.branch_lse == nullptr ? nullptr
                                 : a.branch_lse + times(slot, a.branch_lse_stride) + times(b, a.branch_lse_stride_b) +
                                       times(h, a.branch_lse_stride_h);
}

/// That of row r of the tile.
__device__ __forceinline__ float* lse_at(const weft_args& a, Shared& s, const Tile& t, int r, int slot) {
  float* const of_head = lse_of_head(a, t.b, t.h + head_of_row(s, r), slot);
  return of_head == nullptr ? nullptr : of_head + t.first_row + sequence_row(s, t, r);
}

/// A row's sum with its head's sink as a last term: `m` and `l` are what they become, and what was measured from the old m
/// is to be multiplied by the result.
__device__ __forceinline__ float join_sink(const weft_args& a, int h, float& m, float& l) {
  // fault(sink_of_another_head) also: h = 0;
  const float sink = sink_logit(a, h) * 1.44269504088896341f, top = fmaxf(m, sink);
  const float by = exp2_approx(m - top);
  // fault(sum_as_before_sinks) instead: l += exp2_approx(sink - top);
  l = __fmaf_rn(l, by, exp2_approx(sink - top));
  m = top;
  // fault(o_as_before_sinks) instead: return 1;
  return by;
}

/// In the natural logarithm; m and l are a row's maximum and sum in base 2.
__device__ __forceinline__ float lse_of_row(float m, float l) {
  return l == 0 ? -infinity() : (m + log2_approx(l)) * 0.693147180559945309f;
}
