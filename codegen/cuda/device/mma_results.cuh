#pragma once

#include "codegen/cuda/device/lse.cuh"
#include "codegen/cuda/device/mma_pairs.cuh"

// From the state of a tile's rows to O and LSE, or to the state that the next phase takes up: by way of shared memory,
// because then neighbouring threads hold neighbouring columns, and the code stands here once instead of once for each
// register.

__device__ __forceinline__ float* result_row(Shared& s, int row) { return (float*)s.bytes + row * kResultFloats; }

constexpr int kPartTiles = kColumnTiles / kResultParts;

/// The thread's pair of columns of tile c of a part, in its row i.
__device__ __forceinline__ float* result_at(Shared& s, int i, int c) {
  return result_row(s, row_at(i)) + c * 8 + threadIdx.x % 4 * 2;
}

/// A part of the results goes there, or comes from there.
template <bool kOut>
__device__ __forceinline__ void move_part(Shared& s, State& st, int part) {
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
    for (int c = 0; c < kPartTiles; ++c) {
      float* const o = &st.o[i / 2][part * kPartTiles + c][i % 2 * 2];
      if (kOut) {
        store_shared(result_at(s, i, c), make_float2(o[0], o[1]));
      } else {
        const float2 come = load_shared<float2>(result_at(s, i, c));
        o[0] = come.x;
        o[1] = come.y;
      }
    }
  }
  __syncthreads();
}

/// Calls use(row of the tile, column, where four values of it are) for all there are: of the results as they are, or to
/// become them.
template <bool kOut, typename Use>
__device__ __forceinline__ void each_result(Shared& s, State& st, const Tile& t, const Use& use) {
  constexpr int kFours = kPartColumns / 4;
#pragma unroll
  for (int part = 0; part < kResultParts; ++part) {
    kOut ? move_part<true>(s, st, part) : __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < t.count * kFours; i += kThreads) {
      const int row = i / kFours, in_part = i % kFours * 4, column = part * kPartColumns + in_part;
      if (column < kDimV && is_computed(t, row)) use(row, column, result_row(s, row) + in_part);
    }
    if (!kOut) move_part<false>(s, st, part);
  }
}

/// How many of the four columns from this one on there are.
__device__ __forceinline__ int in_four(int column) { return kDimV % 4 == 0 ? 4 : min(4, kDimV - column); }

/// Sums over a row's four lanes; from here on `l` is the same in all of them.
__device__ __forceinline__ void close_sums(Shared&, State& st) {
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    st.l[i] += __shfl_xor_sync(0xFFFFFFFFu, st.l[i], 1);
    st.l[i] += __shfl_xor_sync(0xFFFFFFFFu, st.l[i], 2);
  }
}

/// Behind close_sums, once for all keys of a row.
__device__ __forceinline__ void join_sinks(const weft_args& a, Shared& s, State& st, const Tile&) {
  if (!kHasSink) return;
  const Tile t = tile_of(s);
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    const float by = join_sink(a, t.h + head_of_row(s, row_at(i)), st.m[i], st.l[i]);
#pragma unroll
    for (int c = 0; c < kColumnTiles; ++c) {
      st.o[i / 2][c][i % 2 * 2] *= by;
      st.o[i / 2][c][i % 2 * 2 + 1] *= by;
    }
  }
}

/// O = factor * acc / l, 0 for rows without keys.
__device__ __forceinline__ void normalize(const Shared&, State& st, float factor) {
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    const float scale = kDirect          ? factor / kDirect
                        : st.l[i] == 0 ? 0
                                       : factor * reciprocal_approx(st.l[i]);
#pragma unroll
    for (int c = 0; c < kColumnTiles; ++c) {
      st.o[i / 2][c][i % 2 * 2] *= scale;
      st.o[i / 2][c][i % 2 * 2 + 1] *= scale;
    }
  }
}

/// Calls use(number of the row, m, l) in one lane for each row.
template <typename Use>
__device__ __forceinline__ void each_sum(Shared& s, const State& st, const Tile& t, const Use& use) {
  const int mine = threadIdx.x % 4;  // the lanes of a row take one of their rows each
  float m = st.m[0], l = st.l[0];
#pragma unroll
  for (int i = 1; i < kRowsEach; ++i) {
    m = mine == i ? st.m[i] : m;
    l = mine == i ? st.l[i] : l;
  }
  const int row = row_at(mine);
  if (mine < kRowsEach && is_computed(t, row)) use(row, m, l);
}

__device__ __forceinline__ void store_lse(const weft_args& a, Shared& s, const State& st, const Tile&, int slot) {
  const Tile t = tile_of(s);
  each_sum(s, st, t, [&](int row, float m, float l) {
    float* const to = lse_at(a, s, t, row, slot);
    if (to != nullptr) store_global(to, lse_of_row(m, l));
  });
}

/// Up to four numbers of a row's state that lie side by side, but not aligned.
__device__ __forceinline__ void load_carried(float* to, const float* from, int count) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) store_shared(to + i, load_written<float>(from + i));
}
__device__ __forceinline__ void store_carried(float* to, const float* from, int count, bool add) {
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    store_global(to + i, load_shared<float>(from + i) + (add ? load_written<float>(to + i) : 0));
  }
}

__device__ __forceinline__ void take_up(const weft_args& a, Shared& s, State& st, const Tile&) {
  const Tile t = tile_of(s);
  each_result<false>(s, st, t, [&](int row, int column, float* to) {
    load_carried(to, carried_row(a, s, t, row) + column, in_four(column));
  });
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    if (!is_computed(t, row_at(i))) continue;
    const float* const sums = carried_row(a, s, t, row_at(i)) + kDimV;
    st.m[i] = load_written<float>(sums);
    st.l[i] = threadIdx.x % 4 == 0 ? load_written<float>(sums + 1) : 0;
  }
}

/// What close_sums left, and O.
__device__ __forceinline__ void store_state(const weft_args& a, Shared& s, State& st, const Tile& t) {
  each_result<true>(s, st, t, [&](int row, int column, const float* o) {
    store_carried(carried_row(a, s, t, row) + column, o, in_four(column), false);
  });
  each_sum(s, st, t, [&](int row, float m, float l) {
    store_global(carried_row(a, s, t, row) + kDimV, m);
    store_global(carried_row(a, s, t, row) + kDimV + 1, l);
  });
}

__device__ __forceinline__ void hand_on(const weft_args& a, Shared& s, State& st, const Tile&) {
  const Tile t = tile_of(s);
  close_sums(s, st);
  store_state(a, s, st, t);
}

/// To O, or of a chunk of keys to the memory that weft_merge reads.
__device__ __forceinline__ void store_rows(const weft_args& a, Shared& s, State& st, const Tile&,
                                           bool chunk = false) {
  const Tile t = tile_of(s);
  if (chunk) return store_state(a, s, st, t);
  unsigned char* const base = (unsigned char*)origin(a.o, t.b, t.h);
  const i64 step = a.o.stride_n * 2;
  const i64 head_step = kSharesTiles ? a.o.stride_h * 2 : 0;
  const bool aligned = kDimV % 4 == 0 && (misalignment(base, step, 8) | misalignment(base, head_step, 8)) == 0;
  each_result<true>(s, st, t, [&](int row, int column, const float* o) {
    store4<kStored>(base + times(sequence_row(s, t, row), step) + times(head_of_row(s, row), head_step) + column * 2,
                    load_shared<float4>(o), aligned, in_four(column));
  });
}

/// A sum of several softmaxes, in the memory that phases keep their state in.
struct Sum {
  bool begun;
};

__device__ __forceinline__ void add_to_sum(const weft_args& a, Shared& s, const Tile&, Sum& sum, State& st) {
  const Tile t = tile_of(s);
  each_result<true>(s, st, t, [&](int row, int column, const float* o) {
    store_carried(carried_row(a, s, t, row) + column, o, in_four(column), sum.begun);
  });
  sum.begun = true;
}

__device__ __forceinline__ void take_sum(const weft_args& a, Shared& s, const Tile&, const Sum& sum, State& st) {
  const Tile t = tile_of(s);
  each_result<false>(s, st, t, [&](int row, int column, float* to) {
    if (sum.begun) return load_carried(to, carried_row(a, s, t, row) + column, in_four(column));
    store_shared(to, make_float4(0, 0, 0, 0));
  });
}
