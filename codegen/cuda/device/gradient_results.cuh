#pragma once

#include "codegen/cuda/device/mma_gradient_results.cuh"
#include "codegen/cuda/device/simt_gradient_results.cuh"
#include "codegen/cuda/device/written.cuh"

// From what a tile summed up to dQ, or to dK and dV; or to memory that the next launch goes on from. A class gives
// each_gradient: part 0 has the columns of Q, part 1, where keys are rows, those of V.

template <int kPart>
constexpr int kColumnsOf = kPart == 0 ? kDim : kDimV;
constexpr int kCarriedGradients = kTransposed ? kDim + kDimV : kDim;

/// What row r of the tile carries from launch to launch, f32.
__device__ __forceinline__ float* carried_row(const weft_args& a, Shared& s, const Tile& t, int r) {
  const int head = kTransposed ? t.b * (int)a.kv_heads + kv_head_of(a, t.h) : t.b * (int)a.heads + t.h;
  const int first = first_row(a), row = sequence_row(s, t, r) - first;
  return a.carry + times(head, (i64)(end_of_rows(a) - first) * kCarriedGradients) + times(row, kCarriedGradients);
}

/// Where it has a column of part kPart.
template <int kPart>
struct Carried {
  const weft_args& a;
  Shared& s;
  const Tile& t;
  __device__ __forceinline__ float* operator()(int row, int column) const {
    return carried_row(a, s, t, row) + (kPart == 0 ? 0 : kDim) + column;
  }
};

template <int kPart>
__device__ __forceinline__ void take_up_part(const weft_args& a, Shared& s, State& st, const Tile& t) {
  each_gradient<false, kPart>(s, st, t, Carried<kPart>{a, s, t}, [&](const float* from, float* to, int column) {
    // fault(gradients_of_the_launch_before_forgotten) instead: store_shared(to, make_float4(0, 0, 0, 0));
    load_floats(to, from, in_four<kColumnsOf<kPart>>(column));
  });
}
__device__ __forceinline__ void take_up(const weft_args& a, Shared& s, State& st) {
  const Tile t = tile_of(s);
  take_up_part<0>(a, s, st, t);
  if constexpr (kTransposed) take_up_part<1>(a, s, st, t);
}

template <int kPart>
__device__ __forceinline__ void hand_on_part(const weft_args& a, Shared& s, State& st, const Tile& t) {
  each_gradient<true, kPart>(s, st, t, Carried<kPart>{a, s, t}, [&](float* to, const float* sums, int column) {
    store_floats(to, sums, in_four<kColumnsOf<kPart>>(column), false);
  });
}
__device__ __forceinline__ void hand_on(const weft_args& a, Shared& s, State& st) {
  const Tile t = tile_of(s);
  hand_on_part<0>(a, s, st, t);
  if constexpr (kTransposed) hand_on_part<1>(a, s, st, t);
}

/// `factor`: what products were multiplied by.
template <int kPart>
__device__ __forceinline__ void store_part_of(const weft_view& view, float factor, const weft_args& a, Shared& s,
                                              State& st, const Tile& t) {
  if (view.data == nullptr) return;
  const int head = kTransposed ? kv_head_of(a, t.h) : t.h;
  const Written to = written<kColumnsOf<kPart>, kStoredAtOnce>(view, t, head);
  store_sums<kColumnsOf<kPart>>(s, part_of<kPart>(st), t, to, factor);
}

/// The `last` launch writes gradients; another goes on from the sums of one before.
__device__ __forceinline__ void close_gradients(const weft_args& a, Shared& s, State& st, bool last) {
  if (!last) return hand_on(a, s, st);
  const Tile t = tile_of(s);
  // fault(scale_left_out) value: 1.0f
  const float scale = (float)a.scale;
  const float units = scale_of_gradients(a, t.b, t.h) * (kDirect ? kDirect : 1);
  store_part_of<0>(kTransposed ? a.d_k : a.d_q, scale / units, a, s, st, t);
  if constexpr (kTransposed) store_part_of<1>(a.d_v, kDirect ? 1.0f / kDirect : 1, a, s, st, t);
}
