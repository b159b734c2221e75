#pragma once

#include "codegen/cuda/device/mma_results.cuh"

// From the state of a tile's rows to O and LSE, or to the state that the next phase takes up. How a class holds a row it
// says by close_sums, scale_rows, each_sum, set_sums and each_result.

/// Behind close_sums, once for all keys of a row.
__device__ __forceinline__ void join_sinks(const weft_args& a, Shared& s, State& st) {
  if (!kHasSink) return;
  // fault(sinks_left_out) also: return;
  const Tile t = tile_of(s);
  scale_rows(s, st, [&](int row, float& m, float& l) { return join_sink(a, t.h + head_of_row(s, row), m, l); });
}

/// O = factor * acc / l, 0 for rows without keys.
__device__ __forceinline__ void normalize(Shared& s, State& st, float factor) {
  scale_rows(s, st, [&](int, float&, float& l) {
    // fault(sigmoids_divided) instead: return l == 0 ? 0 : factor * reciprocal_approx(l);
    // fault(as_large_as_multiplied) instead: return factor;
    return kDirect ? factor / kDirect : l == 0 ? 0 : factor * reciprocal_approx(l);
  });
}

__device__ __forceinline__ void store_lse(const weft_args& a, Shared& s, State& st, int slot) {
  const Tile t = tile_of(s);
  each_sum(s, st, t, [&](int row, float m, float l) {
    float* const to = lse_at(a, s, t, row, slot);
    if (to != nullptr) store_global(to, lse_of_row(m, l));
  });
}

/// How many of the four columns from this one on there are.
__device__ __forceinline__ int in_four(int column) { return kDimV % 4 == 0 ? 4 : min(4, kDimV - column); }

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

__device__ __forceinline__ void take_up(const weft_args& a, Shared& s, State& st) {
  const Tile t = tile_of(s);
  each_result<false>(s, st, t, [&](int row, int column, float* to) {
    load_carried(to, carried_row(a, s, t, row) + column, in_four(column));
  });
  set_sums(s, st, t, [&](int row, float& m, float& l) {
    const float* const sums = carried_row(a, s, t, row) + kDimV;
    m = load_written<float>(sums);
    l = load_written<float>(sums + 1);
  });
}

/// What close_sums left, and O.
__device__ __forceinline__ void store_state(const weft_args& a, Shared& s, State& st) {
  const Tile t = tile_of(s);
  each_sum(s, st, t, [&](int row, float m, float l) {
    float* const sums = carried_row(a, s, t, row) + kDimV;
    store_global(sums, m);
    store_global(sums + 1, l);
  });
  each_result<true>(s, st, t, [&](int row, int column, const float* o) {
    store_carried(carried_row(a, s, t, row) + column, o, in_four(column), false);
  });
}

__device__ __forceinline__ void hand_on(const weft_args& a, Shared& s, State& st) {
  close_sums(s, st);
  store_state(a, s, st);
}

/// To O, or of a chunk of keys to the memory that weft_merge reads.
__device__ __forceinline__ void store_rows(const weft_args& a, Shared& s, State& st, bool chunk = false) {
  if (chunk) return store_state(a, s, st);
  const Tile t = tile_of(s);
  unsigned char* const base = (unsigned char*)origin(a.o, t.b, t.h, t.first_row);
  const i64 step = a.o.stride_n * kBytes<kStored>;
  const i64 head_step = kSharesTiles ? a.o.stride_h * kBytes<kStored> : 0;
  const unsigned odd = misalignment(base, step, 4 * kBytes<kStored>) | misalignment(base, head_step, 4 * kBytes<kStored>);
  const bool aligned = kDimV % 4 == 0 && odd == 0;
  each_result<true>(s, st, t, [&](int row, int column, const float* o) {
    unsigned char* const to =
        base + times(sequence_row(s, t, row), step) + times(head_of_row(s, row), head_step) + column * kBytes<kStored>;
    store4<kStored>(to, load_shared<float4>(o), aligned, in_four(column));
  });
}

/// A sum of several softmaxes, in the memory that phases keep their state in.
struct Sum {
  bool begun;
};

__device__ __forceinline__ void add_to_sum(const weft_args& a, Shared& s, Sum& sum, State& st) {
  const Tile t = tile_of(s);
  each_result<true>(s, st, t, [&](int row, int column, const float* o) {
    store_carried(carried_row(a, s, t, row) + column, o, in_four(column), sum.begun);
  });
  sum.begun = true;
}

__device__ __forceinline__ void take_sum(const weft_args& a, Shared& s, const Sum& sum, State& st) {
  const Tile t = tile_of(s);
  each_result<false>(s, st, t, [&](int row, int column, float* to) {
    if (sum.begun) return load_carried(to, carried_row(a, s, t, row) + column, in_four(column));
    store_shared(to, make_float4(0, 0, 0, 0));
  });
}
