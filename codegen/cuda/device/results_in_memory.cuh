#pragma once

#include "codegen/cuda/device/results.cuh"

// The state of rows that waits in memory: between the launches of several phases, or while softmaxes are added up.

__device__ __forceinline__ void take_up(const weft_args& a, Shared& s, State& st) {
  const Tile t = tile_of(s);
  each_result<false>(s, st, t, Carried{a, s, t}, [&](const float* from, float* to, int column) {
    load_floats(to, from, in_four<kDimV>(column));
  });
  set_sums(s, st, t, [&](int row, float& m, float& l) {
    const float* const sums = carried_row(a, s, t, row) + kDimV;
    m = load_written<float>(sums);
    l = load_written<float>(sums + 1);
  });
}

__device__ __forceinline__ void hand_on(const weft_args& a, Shared& s, State& st) {
  close_sums(s, st);
  store_state(a, s, st);
}

/// A sum of several softmaxes, in the memory that phases keep their state in.
struct Sum {
  bool begun;
};

__device__ __forceinline__ void add_to_sum(const weft_args& a, Shared& s, Sum& sum, State& st) {
  const Tile t = tile_of(s);
  each_result<true>(s, st, t, Carried{a, s, t}, [&](float* to, const float* o, int column) {
    store_floats(to, o, in_four<kDimV>(column), sum.begun);
  });
  sum.begun = true;
}

__device__ __forceinline__ void take_sum(const weft_args& a, Shared& s, const Sum& sum, State& st) {
  const Tile t = tile_of(s);
  each_result<false>(s, st, t, Carried{a, s, t}, [&](const float* from, float* to, int column) {
    if (sum.begun) return load_floats(to, from, in_four<kDimV>(column));
    store_shared(to, make_float4(0, 0, 0, 0));
  });
}
