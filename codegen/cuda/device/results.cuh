#pragma once

#include "codegen/cuda/device/simt.cuh"

// From the state of a tile's rows to O and LSE, or to the state that the next phase takes up.

__device__ __forceinline__ int column_of(int c) {
  const int lane = lane_of_row();
  if (c < 4 * kFours) return c / 4 * 64 + 4 * lane + c % 4;
  if (kTwo && c < 4 * kFours + 2) return 64 * kFours + 2 * lane + c % 2;
  return kColumns - 16 + lane;
}

/// The number of the row among the tensors' rows; -1 behind the tile's last.
__device__ __forceinline__ int row_number(Shared& s, const Tile& t, int r) {
  const int at = row_group() * kRowsEach + r;
  return at < t.count ? get(s.x[at]) - t.offset : -1;
}

/// Sums over a row's lanes; from here on `l` is the same in all of them.
__device__ __forceinline__ void close_sums(State& st) {
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) st.l[r] = sum_of_row(st.l[r]);
}

/// O = factor * acc / l, 0 for rows without keys.
__device__ __forceinline__ void normalize(State& st, float factor) {
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const float scale = factor * reciprocal_approx(st.l[r]);
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) st.o[r][c] = st.l[r] == 0 ? 0 : st.o[r][c] * scale;
  }
}

using Columns = float[kRowsEach][kColumnsEach];

__device__ __forceinline__ void add(Columns& to, const Columns& what) {
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) to[r][c] += what[r][c];
  }
}

__device__ __forceinline__ void copy(Columns& to, const Columns& what) {
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) to[r][c] = what[r][c];
  }
}

/// The LSE in the natural logarithm, of the pattern or of branch `slot`: each of a row group's first lanes stores one.
__device__ __forceinline__ void store_lse(const weft_args& a, Shared& s, const State& st, const Tile& t, int slot) {
  float* const base = slot < 0 ? a.lse + times(t.b, a.lse_stride_b) + times(t.h, a.lse_stride_h)
                               : a.branch_lse + times(slot, a.branch_lse_stride) + times(t.b, a.branch_lse_stride_b) +
                                     times(t.h, a.branch_lse_stride_h);
  if ((slot < 0 ? a.lse : a.branch_lse) == nullptr || lane_of_row() >= kRowsEach) return;
  float m = 0, l = 0;
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    m = lane_of_row() == r ? st.m[r] : m;
    l = lane_of_row() == r ? st.l[r] : l;
  }
  const int row = row_number(s, t, lane_of_row());
  const float lse = (m + log2_approx(l)) * 0.693147180559945309f;
  if (row >= 0) store_global(base + row, l == 0 ? -infinity() : lse);
}

__device__ __forceinline__ void store_rows(const weft_args& a, Shared& s, const State& st, const Tile& t) {
  unsigned char* const base = (unsigned char*)origin(a.o, t.b, t.h);
  const i64 step = a.o.stride_n * kBytes<kStored>;
  const bool aligned = is_aligned(base, step);
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const int row = row_number(s, t, r);
    if (row < 0) continue;
    unsigned char* const to = base + times(row, step);
#pragma unroll
    for (int c = 0; c < 4 * kFours; c += 4) {
      if (column_of(c) >= kDimV) continue;
      const float* const o = &st.o[r][c];
      store4<kStored>(to + column_of(c) * kBytes<kStored>, make_float4(o[0], o[1], o[2], o[3]), aligned);
    }
#pragma unroll
    for (int c = 4 * kFours; c < kColumnsEach; ++c) {
      if (column_of(c) < kDimV) store1<kStored>(to + column_of(c) * kBytes<kStored>, st.o[r][c]);
    }
  }
}

/// A row's state between phases: acc, m, l, as f32.
__device__ __forceinline__ float* carried_row(const weft_args& a, const Tile& t, int row) {
  return a.carry + (times(t.b * (int)a.heads + t.h, a.n_q) + row) * (kDimV + 2);
}

__device__ __forceinline__ void take_up(const weft_args& a, Shared& s, State& st, const Tile& t) {
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const int row = row_number(s, t, r);
    if (row < 0) continue;
    const float* const from = carried_row(a, t, row);
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) {
      if (column_of(c) < kDimV) st.o[r][c] = load_written<float>(from + column_of(c));
    }
    st.m[r] = load_written<float>(from + kDimV);
    st.l[r] = lane_of_row() == 0 ? load_written<float>(from + kDimV + 1) : 0;
  }
}

__device__ __forceinline__ void hand_on(const weft_args& a, Shared& s, State& st, const Tile& t) {
  close_sums(st);
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const int row = row_number(s, t, r);
    if (row < 0) continue;
    float* const to = carried_row(a, t, row);
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) {
      if (column_of(c) < kDimV) store_global(to + column_of(c), st.o[r][c]);
    }
    if (lane_of_row() == 0) {
      store_global(to + kDimV, st.m[r]);
      store_global(to + kDimV + 1, st.l[r]);
    }
  }
}
