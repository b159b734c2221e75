#pragma once

#include "codegen/cuda/device/mma_results.cuh"
#include "codegen/cuda/device/written.cuh"

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

/// Where a row's state has a column.
struct Carried {
  const weft_args& a;
  Shared& s;
  const Tile& t;
  __device__ __forceinline__ float* operator()(int row, int column) const { return carried_row(a, s, t, row) + column; }
};

/// What close_sums left, and O.
__device__ __forceinline__ void store_state(const weft_args& a, Shared& s, State& st) {
  const Tile t = tile_of(s);
  each_sum(s, st, t, [&](int row, float m, float l) {
    float* const sums = carried_row(a, s, t, row) + kDimV;
    store_global(sums, m);
    store_global(sums + 1, l);
  });
  each_result<true>(s, st, t, Carried{a, s, t}, [&](float* to, const float* o, int column) {
    store_floats(to, o, in_four<kDimV>(column), false);
  });
}

/// To O, or of a chunk of keys to the memory that weft_merge reads.
__device__ __forceinline__ void store_rows(const weft_args& a, Shared& s, State& st, bool chunk = false) {
  if (chunk) return store_state(a, s, st);
  const Tile t = tile_of(s);
  store_sums<kDimV>(s, st.o, t, written<kDimV, kStoredAtOnce>(a.o, t, t.h), 1);
}
