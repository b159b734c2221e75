#pragma once

#include "codegen/cuda/device/carried.cuh"
#include "codegen/cuda/device/lse.cuh"

// Where keys are cut into chunks: what each chunk gave a row becomes O and LSE, or where there is no O the state of the
// first, which further chunks join. A warp takes a row, and the chunks from left to right, so that a row's bits depend on
// nothing but its chunks. `tiles` are rows here.

constexpr int kMergedColumns = (kDimV + 31) / 32;  // of a thread

constexpr int kMergedAtOnce = kMergedColumns > 4 ? 4 : 8;  // chunks: their memory is waited for together

struct Merged {
  float m, l, o[kMergedColumns];
};

/// One softmax of a row: what its chunks keep lies so many floats apart.
__device__ __forceinline__ Merged merge_chunks(int chunks, const float* from, int apart, int lane) {
  Merged all = {kLowest, 0, {}};
#pragma unroll 1
  for (int left = chunks; left > 0; left -= kMergedAtOnce, from += kMergedAtOnce * apart) {
    Merged its[kMergedAtOnce];
#pragma unroll
    for (int j = 0; j < kMergedAtOnce; ++j) {
      const float* const at = from + min(j, left - 1) * apart;  // behind the last one, that again
      its[j].m = load_written<float>(at + kDimV);
      its[j].l = load_written<float>(at + kDimV + 1);
#pragma unroll
      for (int i = 0; i < kMergedColumns; ++i)
        its[j].o[i] = 32 * i + lane < kDimV ? load_written<float>(at + 32 * i + lane) : 0;
    }
#pragma unroll
    for (int j = 0; j < kMergedAtOnce; ++j) {
      if (j >= left) break;
      const float top = fmaxf(all.m, its[j].m), keep = exp2_approx(all.m - top), add = exp2_approx(its[j].m - top);
      all.m = top;
      all.l = __fmaf_rn(its[j].l, add, all.l * keep);
#pragma unroll
      for (int i = 0; i < kMergedColumns; ++i) all.o[i] = __fmaf_rn(its[j].o[i], add, all.o[i] * keep);
    }
  }
  return all;
}

__device__ __forceinline__ void keep_merged(float* to, const Merged& one, int lane) {
#pragma unroll
  for (int i = 0; i < kMergedColumns; ++i) {
    const int column = 32 * i + lane;
    if (column < kDimV) store_global(to + column, one.o[i]);
  }
  if (lane == 0) store_global(to + kDimV, one.m), store_global(to + kDimV + 1, one.l);
}

extern "C" __global__ void __launch_bounds__(kThreads) weft_merge(const weft_args a) {
  const int number = (int)a.tile_begin + (int)blockIdx.x * kWarps + (int)threadIdx.x / 32, lane = threadIdx.x % 32;
  if (number >= a.tile_end) return;
  const int rows = (int)a.carried_rows, head_number = number / rows;
  const int row = (int)a.row_begin + number - head_number * rows;
  const int b = head_number / (int)a.heads, h = head_number - b * (int)a.heads;
  if (row >= queries_of(a, b) || !is_cut(a, b) || !is_of_launch(a, queries_of(a, b))) return;
  const int row_of_tensor = first_query_of(a, b) + row;
  const int count = softmaxes(a);
  float* const state = a.carry + times(number, a.chunk_slots * (count * kCarriedFloats));
  const i64* const of_head = a.tables + word(a.tables + word(a.tables + 1 + a.phase) + 2 + h) + kPassesAt;
  float sum[kMergedColumns] = {};
#pragma unroll 1
  for (int n = 0; n < count; ++n) {
    Merged one = merge_chunks(chunks_of(a, b), state + n * kCarriedFloats, count * kCarriedFloats, lane);
    if (a.o.data == nullptr) {
      __syncwarp();  // all have read
      keep_merged(state + n * kCarriedFloats, one, lane);
      continue;
    }
    if (kHasSink) {
      const float by = join_sink(a, h, one.m, one.l);
#pragma unroll
      for (int i = 0; i < kMergedColumns; ++i) one.o[i] *= by;
    }
    const i64* const pass = a.tables + word(of_head + n);
    float* const lse = word(pass + kWritesLse) ? lse_of_head(a, b, h, (int)word(pass + kLseSlot)) : nullptr;
    if (lane == 0 && lse != nullptr) store_global(lse + row_of_tensor, lse_of_row(one.m, one.l));
    if ((!kDirect && one.l == 0) || !word(pass + kOut)) continue;
    float factor = kSeveralSoftmaxes ? (float)__longlong_as_double(word(pass + kFactor)) : 1;
    factor = kDirect ? factor / kDirect : factor * reciprocal_approx(one.l);
#pragma unroll
    for (int i = 0; i < kMergedColumns; ++i) sum[i] += one.o[i] * factor;
  }
  if (a.o.data == nullptr) return;
  const i64 at = times(b, a.o.stride_b) + times(h, a.o.stride_h) + times(row_of_tensor, a.o.stride_n);
  unsigned char* const to = (unsigned char*)a.o.data + at * kBytes<kStored>;
#pragma unroll
  for (int i = 0; i < kMergedColumns; ++i) {
    const int column = 32 * i + lane;
    if (column < kDimV) store1<kStored>(to + column * kBytes<kStored>, sum[i]);
  }
}
