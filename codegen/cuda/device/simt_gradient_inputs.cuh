#pragma once

#include "codegen/cuda/device/input_sums.cuh"
#include "codegen/cuda/device/simt_gradient_results.cuh"

/// What a thread has measured or added of the inputs that scores read. Elements: see codegen/cuda/pairs.h.
struct NothingToSettle {
  int rounds;
};
template <typename Elements>
struct InputSums {
  using Settled = NothingToSettle;
  ElementSum of[Elements::kCount > 0 ? Elements::kCount : 1];
  int softmax;
};
template <typename Elements>
__device__ __forceinline__ void settle(Shared&, InputSums<Elements>&, NothingToSettle&, bool, bool) {}

template <typename Pairs, bool kBusy, typename Elements>
__device__ __forceinline__ void compute_block(const weft_args& a, Shared& s, InputSums<Elements>& st, const Views& w,
                                              const Tile& t, const BothRows& rows, int from, int count, bool masked) {
  Scores p, d;
  Staging at = {};
  multiply_both<kBusy>(s, w, rows, p, d, at);
  if (!kBusy) return;
  const auto add = [&](const PairGradient& of, int r, float product, int q, int k) {
    if (!is_computed(t, row_of(r)) || of.d_own == 0) return make_float2(0, 0);
#pragma unroll
    for (int i = 0; i < Elements::kCount - Elements::kOfSink; ++i) {
      if (a.input_sums[Elements::input(i)] == nullptr) continue;
      const float slope = Elements::slope(a, t, i, product * (float)a.scale, q, k);
      if (slope != 0) add_to_input(a, st.of[i], Elements::place(a, t, i, q, k), of.d_own * slope);
    }
    return make_float2(0, 0);
  };
  each_gradient_of_pair<Pairs>(a, s, t, from, count, masked, p, d, add);
}
