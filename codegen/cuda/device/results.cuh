#pragma once

#include "codegen/cuda/device/simt.cuh"

// From the state of a tile's rows to O and LSE, or to the state that the next phase takes up.

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
    const float scale = st.l[r] == 0 ? 0 : factor * reciprocal_approx(st.l[r]);
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) st.o[r][c] *= scale;
  }
}

/// Of row number `lane` of the thread's: so that the first lanes of a row group store its rows side by side.
struct Sums {
  float m, l;
};
__device__ __forceinline__ Sums sums_of_lane(const State& st) {
  Sums sums = {};
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    sums.m = lane_of_row() == r ? st.m[r] : sums.m;
    sums.l = lane_of_row() == r ? st.l[r] : sums.l;
  }
  return sums;
}

/// The LSE in the natural logarithm, of the pattern or of branch `slot`.
__device__ __forceinline__ void store_lse(const weft_args& a, Shared& s, const State& st, const Tile& t, int slot) {
  float* const base = !kHasSlots || slot < 0
                          ? a.lse + times(t.b, a.lse_stride_b) + times(t.h, a.lse_stride_h)
                          : a.branch_lse + times(slot, a.branch_lse_stride) + times(t.b, a.branch_lse_stride_b) +
                                times(t.h, a.branch_lse_stride_h);
  if ((!kHasSlots || slot < 0 ? a.lse : a.branch_lse) == nullptr || lane_of_row() >= kRowsEach) return;
  const Sums sums = sums_of_lane(st);
  const int row = row_number(s, t, lane_of_row());
  const float lse = (sums.m + log2_approx(sums.l)) * 0.693147180559945309f;
  if (row >= 0) store_global(base + row, sums.l == 0 ? -infinity() : lse);
}

/// Hands columns [column, column + 16 * kWide) of every row to use(row number, column, four values). By way of shared
/// memory, because then neighbouring threads hold neighbouring columns, and the code stands here once instead of once
/// for each row of a thread.
template <int kWide, typename Use>
__device__ __forceinline__ void each_four(Shared& s, const State& st, const Tile& t, int at, int column,
                                          const Use& use) {
  constexpr int kWidth = 16 * kWide, kFoursARow = kWidth / 4;
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    float* const to = &s.weights[(row_group() * kRowsEach + r) * kWidth + lane_of_row() * kWide];
    const float* const o = &st.o[r][at];
    if constexpr (kWide == 4) store_shared(to, make_float4(o[0], o[1], o[2], o[3]));
    if constexpr (kWide == 2) store_shared(to, make_float2(o[0], o[1]));
    if constexpr (kWide == 1) store_shared(to, o[0]);
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < kRows * kFoursARow; i += kThreads) {
    const int row = i / kFoursARow, c = column + i % kFoursARow * 4;
    if (row < t.count && c < kDimV) use(get(s.x[row]) - t.offset, c, load_shared<float4>(&s.weights[4 * i]));
  }
}

template <typename Use>
__device__ __forceinline__ void each_result(Shared& s, const State& st, const Tile& t, const Use& use) {
#pragma unroll
  for (int g = 0; g < kFours; ++g) each_four<4>(s, st, t, 4 * g, 64 * g, use);
  if constexpr (kTwo) each_four<2>(s, st, t, 4 * kFours, 64 * kFours, use);
  if constexpr (kSingle) each_four<1>(s, st, t, kColumnsEach - 1, kColumns - 16, use);
}

__device__ __forceinline__ void store_rows(const weft_args& a, Shared& s, const State& st, const Tile& t) {
  unsigned char* const base = (unsigned char*)origin(a.o, t.b, t.h);
  const i64 step = a.o.stride_n * kBytes<kStored>;
  const bool aligned = kDimV % 4 == 0 && misalignment(base, step) == 0;
  each_result(s, st, t, [&](int row, int column, float4 o) {
    store4<kStored>(base + times(row, step) + column * kBytes<kStored>, o, aligned, in_four(column));
  });
}

/// A row's state between phases: acc, m, l, as f32.
__device__ __forceinline__ float* carried_row(const weft_args& a, const Tile& t, int row) {
  return a.carry + (times(t.b * (int)a.heads + t.h, a.n_q) + row) * (kDimV + 2);
}

__device__ __forceinline__ int column_of(int c) {
  const int lane = lane_of_row();
  if (c < 4 * kFours) return c / 4 * 64 + 4 * lane + c % 4;
  if (kTwo && c < 4 * kFours + 2) return 64 * kFours + 2 * lane + c % 2;
  return kColumns - 16 + lane;
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
  each_result(s, st, t, [&](int row, int column, float4 o) {
    float* const to = carried_row(a, t, row) + column;
    store_global(to, o.x);
    if (in_four(column) > 1) store_global(to + 1, o.y);
    if (in_four(column) > 2) store_global(to + 2, o.z);
    if (in_four(column) > 3) store_global(to + 3, o.w);
  });
  const Sums sums = sums_of_lane(st);
  const int row = lane_of_row() < kRowsEach ? row_number(s, t, lane_of_row()) : -1;
  if (row < 0) return;
  store_global(carried_row(a, t, row) + kDimV, sums.m);
  store_global(carried_row(a, t, row) + kDimV + 1, sums.l);
}

/// A sum of several softmaxes: in registers where they hold it, else in the memory that phases keep their state in.
constexpr bool kSumFits = kDimV <= 64;
struct Sum {
  float o[kRowsEach][kColumnsEach];
  bool begun;
};

template <typename Use>
__device__ __forceinline__ void each_summed(const weft_args& a, Shared& s, const Tile& t, const Use& use) {
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const int row = row_number(s, t, r);
    if (!kSumFits && row < 0) continue;
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) {
      if (kSumFits) {
        use(r, c, nullptr);
      } else if (column_of(c) < kDimV) {
        use(r, c, carried_row(a, t, row) + column_of(c));
      }
    }
  }
}

__device__ __forceinline__ void add_to_sum(const weft_args& a, Shared& s, const Tile& t, Sum& sum, const State& st) {
  each_summed(a, s, t, [&](int r, int c, float* at) {
    if (kSumFits) {
      sum.o[r][c] += st.o[r][c];
    } else {
      store_global(at, (sum.begun ? load_written<float>(at) : 0) + st.o[r][c]);
    }
  });
  sum.begun = true;
}

__device__ __forceinline__ void take_sum(const weft_args& a, Shared& s, const Tile& t, const Sum& sum, State& st) {
  each_summed(a, s, t, [&](int r, int c, float* at) {
    if (kSumFits) {
      st.o[r][c] = sum.o[r][c];
    } else {
      st.o[r][c] = sum.begun ? load_written<float>(at) : 0;
    }
  });
}
