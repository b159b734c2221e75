#pragma once

#include "codegen/cuda/device/carried.cuh"

// Where keys are cut into chunks: what each chunk gave a row becomes O and LSE. A warp takes a row, and the chunks from
// left to right, so that a row's bits depend on nothing but its chunks. `tiles` are rows here.

constexpr int kMergedColumns = (kDimV + 31) / 32;  // of a thread

extern "C" __global__ void __launch_bounds__(kThreads) weft_merge(const weft_args a) {
  const int number = (int)a.tile_begin + (int)blockIdx.x * kWarps + (int)threadIdx.x / 32, lane = threadIdx.x % 32;
  if (number >= a.tile_end) return;
  const int head_number = number / (int)a.n_q, row = number - head_number * (int)a.n_q;
  const int b = head_number / (int)a.heads, h = head_number - b * (int)a.heads;
  const float* from = a.carry + times(number, a.chunks * kCarriedFloats);
  float m = kLowest, l = 0, o[kMergedColumns] = {};
#pragma unroll 1
  for (int left = (int)a.chunks; left > 0; --left, from += kCarriedFloats) {
    const float its_m = load_written<float>(from + kDimV), its_l = load_written<float>(from + kDimV + 1);
    const float top = fmaxf(m, its_m), keep = exp2_approx(m - top), add = exp2_approx(its_m - top);
    m = top;
    l = __fmaf_rn(its_l, add, l * keep);
#pragma unroll
    for (int i = 0; i < kMergedColumns; ++i) {
      const int column = 32 * i + lane;
      if (column < kDimV) o[i] = __fmaf_rn(load_written<float>(from + column), add, o[i] * keep);
    }
  }
  const float scale = l == 0 ? 0 : reciprocal_approx(l);
  const i64 at = times(b, a.o.stride_b) + times(h, a.o.stride_h) + times(row, a.o.stride_n);
  unsigned char* const to = (unsigned char*)a.o.data + at * kBytes<kStored>;
#pragma unroll
  for (int i = 0; i < kMergedColumns; ++i) {
    const int column = 32 * i + lane;
    if (column < kDimV) store1<kStored>(to + column * kBytes<kStored>, o[i] * scale);
  }
  if (lane > 0 || a.lse == nullptr) return;
  const float lse = (m + log2_approx(l)) * 0.693147180559945309f;
  store_global(a.lse + times(b, a.lse_stride_b) + times(h, a.lse_stride_h) + row, l == 0 ? -infinity() : lse);
}
