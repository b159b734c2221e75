#pragma once

#include "codegen/cuda/device/lse.cuh"
#include "codegen/cuda/device/simt.cuh"

// From the state of a tile's rows to O and LSE, or to the state that the next phase takes up.

/// Adds up over a row's lanes, in place of what each of them had. From here on: row_sum.
__device__ __forceinline__ void close_sums(Shared& s, State&) {
  OfRows l;
  load_sums(s, l);
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) l[r] = sum_of_row(l[r]);
  __syncthreads();
  if (lane_of_row() == 0) {
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) put(s.sums[warp_of_columns() * kRows + row_of(r)], l[r]);
  }
  __syncthreads();
}

__device__ __forceinline__ float row_sum(const Shared& s, int row) {
  const float sum = get(s.sums[row]);
  return kColumnWarps > 1 ? sum + get(s.sums[kRows + row]) : sum;
}

/// Behind close_sums, once for all keys of a row.
__device__ __forceinline__ void join_sinks(const weft_args& a, Shared& s, State& st, const Tile& t) {
  if (!kHasSink) return;
  const int row = threadIdx.x;
  if (row < kRows) {
    float m = get(s.maxima[row]), l = row_sum(s, row);
    store_shared(&s.weights[row], join_sink(a, t.h + head_of_row(s, row), m, l));
    put(s.maxima[row], m);
    put(s.sums[row], l);
    if (kColumnWarps > 1) put(s.sums[kRows + row], 0.0f);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const float by = load_shared<float>(&s.weights[row_of(r)]);
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) st.o[r][c] *= by;
  }
}

/// O = factor * acc / l, 0 for rows without keys.
__device__ __forceinline__ void normalize(const Shared& s, State& st, float factor) {
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const float sum = row_sum(s, row_of(r));
    const float scale = kDirect ? factor / kDirect : sum == 0 ? 0 : factor * reciprocal_approx(sum);
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) st.o[r][c] *= scale;
  }
}

__device__ __forceinline__ void store_lse(const weft_args& a, Shared& s, const State&, const Tile& t, int slot) {
  if (!is_computed(t, threadIdx.x)) return;
  float* const to = lse_at(a, s, t, threadIdx.x, slot);
  if (to != nullptr) store_global(to, lse_of_row(get(s.maxima[threadIdx.x]), row_sum(s, threadIdx.x)));
}

/// Of V and O: how many of the four columns from this one on there are.
__device__ __forceinline__ int in_four(int column) { return kDimV % 4 == 0 ? 4 : min(4, kDimV - column); }

/// Hands columns [column, column + 8 * kWide) of every row and warp to use(row of the tile, column, four values). By way
/// of shared memory, because then neighbouring threads hold neighbouring columns, and the code stands here once instead
/// of once for each row of a thread.
template <int kWide, typename Use>
__device__ __forceinline__ void each_four(Shared& s, const State& st, const Tile& t, int at, int column,
                                          const Use& use) {
  constexpr int kOfWarp = 8 * kWide, kWidth = kOfWarp * kColumnWarps, kFoursWide = kWidth / 4;
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    float* const to = &s.weights[row_of(r) * kWidth + warp_of_columns() * kOfWarp + lane_of_row() * kWide];
    const float* const o = &st.o[r][at];
    if constexpr (kWide == 4) store_shared(to, make_float4(o[0], o[1], o[2], o[3]));
    if constexpr (kWide == 2) store_shared(to, make_float2(o[0], o[1]));
    if constexpr (kWide == 1) store_shared(to, o[0]);
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < kRows * kFoursWide; i += kThreads) {
    const int row = i / kFoursWide, in_row = i % kFoursWide * 4;
    const int c = column + in_row / kOfWarp * (kColumns / kColumnWarps) + in_row % kOfWarp;
    if (is_computed(t, row) && c < kDimV) use(row, c, load_shared<float4>(&s.weights[4 * i]));
  }
}

/// The last thing that is done with a state: its columns turn, so that the code stands once for all fours.
template <typename Use>
__device__ __forceinline__ void each_result(Shared& s, State& st, const Tile& t, const Use& use) {
  if constexpr (kTwo) each_four<2>(s, st, t, 4 * kFours, 32 * kFours, use);
  if constexpr (kSingle) each_four<1>(s, st, t, kColumnsEach - 1, kColumns / kColumnWarps - 8, use);
#pragma unroll 1
  for (int g = 0; g < kFours; ++g) {
    each_four<4>(s, st, t, 0, 32 * g, use);
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int c = 4; c < 4 * kFours; ++c) st.o[r][c - 4] = st.o[r][c];
    }
  }
}

__device__ __forceinline__ void store_carried(const weft_args& a, Shared& s, const Tile& t, int row, int column,
                                              float4 o) {
  store4<Element::f32>((unsigned char*)(carried_row(a, s, t, row) + column), o, false, in_four(column));
}

/// m and l behind close_sums.
__device__ __forceinline__ void store_carried_sums(const weft_args& a, Shared& s, const Tile& t) {
  if (!is_computed(t, threadIdx.x)) return;
  float* const to = carried_row(a, s, t, threadIdx.x) + kDimV;
  store_global(to, get(s.maxima[threadIdx.x]));
  store_global(to + 1, row_sum(s, threadIdx.x));
}

/// To O, or of a chunk of keys to the memory that weft_merge reads.
__device__ __forceinline__ void store_rows(const weft_args& a, Shared& s, State& st, const Tile& t,
                                           bool chunk = false) {
  if (chunk) store_carried_sums(a, s, t);
  each_result(s, st, t, [&](int row, int column, float4 o) {
    if (chunk) return store_carried(a, s, t, row, column, o);
    const bool aligned = kDimV % 4 == 0 && get(s.misaligned[kO]) % (4 * kBytes<kStored>) == 0;
    unsigned char* const to = get(s.views[kO].base) + times(sequence_row(s, t, row), get(s.views[kO].step)) +
                              times(head_of_row(s, row), a.o.stride_h * kBytes<kStored>);
    store4<kStored>(to + column * kBytes<kStored>, o, aligned, in_four(column));
  });
}

__device__ __forceinline__ void take_up(const weft_args& a, Shared& s, State& st, const Tile& t) {
  OfRows m = {}, l = {};
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    if (!is_computed(t, row_of(r))) continue;
    const float* const from = carried_row(a, s, t, row_of(r));
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) {
      if (column_of(c) < kDimV) st.o[r][c] = load_written<float>(from + column_of(c));
    }
    m[r] = load_written<float>(from + kDimV);
    l[r] = lane_of_row() == 0 && warp_of_columns() == 0 ? load_written<float>(from + kDimV + 1) : 0;
  }
  store_maxima(s, m);
  store_sums(s, l);
  sync_rows();
}

__device__ __forceinline__ void hand_on(const weft_args& a, Shared& s, State& st, const Tile& t) {
  close_sums(s, st);
  store_carried_sums(a, s, t);
  each_result(s, st, t, [&](int row, int column, float4 o) { store_carried(a, s, t, row, column, o); });
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
    if (!kSumFits && !is_computed(t, row_of(r))) continue;
    float* const from = kSumFits ? nullptr : carried_row(a, s, t, row_of(r));
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) {
      if (kSumFits) {
        use(r, c, nullptr);
      } else if (column_of(c) < kDimV) {
        use(r, c, from + column_of(c));
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
