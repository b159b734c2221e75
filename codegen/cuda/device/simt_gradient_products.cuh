#pragma once

#include "codegen/cuda/device/simt_gradient_views.cuh"
#include "codegen/cuda/device/simt_products.cuh"

// Products of the backward pass on plain lanes. Each but the last of a block stages the first chunk of the next one under
// its own last chunk.

/// Where the products of a block are in the stage: the half that the next one begins with, and whether its first chunk is
/// there, because the product before has staged it.
struct Staging {
  int half;
  bool staged;
};

template <int kPart>
struct ColumnsBehind {
  static constexpr bool kFollows = true, kOfColumns = true;
  Shared& s;
  const Rows& rows;
  ChunkOfColumns chunk = {};
  __device__ __forceinline__ ColumnsBehind(Shared& shared, const Rows& of) : s(shared), rows(of) {}
  __device__ __forceinline__ void load() { chunk = load_columns(rows, 0); }
  __device__ __forceinline__ void store(int half) { store_columns(s, places_of_columns(), half, chunk); }
  __device__ __forceinline__ void stage_each(int half) {
    stage_each_column<kDimOf<kPart>>(beyond(s.stage, half), rows, 0);
  }
};
template <int kPart>
struct ValuesBehind {
  static constexpr bool kFollows = true, kOfColumns = false;
  Shared& s;
  ChunkOfValues chunk = {};
  __device__ __forceinline__ explicit ValuesBehind(Shared& shared) : s(shared) {}
  __device__ __forceinline__ void load() {
    // fault(values_behind_of_the_other_tensor) instead: chunk = load_values(s.value_row[1 - kPart], 0);
    chunk = load_values(s.value_row[kPart], 0);
  }
  __device__ __forceinline__ void store(int half) { store_values(beyond(s.stage, half), chunk); }
  __device__ __forceinline__ void stage_each(int half) {
    stage_each_value<kDimOf<kPart>>(beyond(s.stage, half), s.value_row[kPart], 0);
  }
};

/// scores = rows of the tile times rows of keys.
template <bool kBusy, int kPart, typename Behind = NothingBehind>
__device__ __forceinline__ void multiply_part(Shared& s, const Views& w, const BothRows& rows, Scores& scores,
                                              Staging& at, Behind behind = {}) {
  if (!at.staged) {
    ColumnsBehind<kPart> first(s, rows.of[kPart]);
    if (w.aligned) first.load();
    first.store(at.half);
    if (!w.aligned) first.stage_each(at.half);
  }
  ChunkOfColumns next = {};  // of rows that are not aligned nothing is loaded, and what is stored is staged once more
  multiply_scores<kBusy, kDimOf<kPart>>(s, rows.of[kPart], w.aligned, next, scores, [&] {
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) scores[r][j] = 0;
    }
  }, at.half, at.staged, behind);
  at.staged = Behind::kFollows;
}

/// S and dP side by side.
template <bool kBusy>
__device__ __forceinline__ void multiply_both(Shared& s, const Views& w, const BothRows& rows, Scores& p, Scores& d,
                                              Staging& at) {
  multiply_part<kBusy, 0>(s, w, rows, p, at, ColumnsBehind<1>(s, rows.of[1]));
  multiply_part<kBusy, 1>(s, w, rows, d, at);
}

/// sums += weights times rows of keys.
template <bool kBusy, int kPart, typename Behind = NothingBehind>
__device__ __forceinline__ void sum_up(Shared& s, const Views& w, Sums& sums, bool masked, Scores& weights, Staging& at,
                                       Behind behind = {}) {
  const ValueRows rows = s.value_row[kPart];
  const bool strange = masked && values_are_strange<kDimOf<kPart>>(rows, w.aligned);
  if (!at.staged) {
    ValuesBehind<kPart> first(s);
    if (w.aligned) first.load();
    first.store(at.half);
    if (!w.aligned) first.stage_each(at.half);
  }
  ChunkOfValues next = {};
  multiply_values<kBusy, kDimOf<kPart>>(s, rows, sums, next, w.aligned, strange, weights, [](int) {}, at.half, behind);
  at.staged = Behind::kFollows && !strange;
}
