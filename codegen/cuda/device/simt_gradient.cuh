#pragma once

#include "codegen/cuda/device/gradient_deltas.cuh"
#include "codegen/cuda/device/simt_columns.cuh"
#include "codegen/cuda/device/simt_gradient_views.cuh"

// A block of keys in the backward pass, on plain lanes: S and dP, from them P and dS, and the sums of those. A tile of
// queries sums up dQ += dS K, one of keys dK += dS^T Q and dV += P^T dO: what is transposed is the walk, not the code.

/// What a thread has settled.
struct SettledGradients {
  float sums[kTransposed ? 2 : 1][kColumnsEach * kRowsEach];
  int rounds;
};

/// The thread's part of dQ, or of dK and dV; and which softmax is at hand.
struct State {
  using Settled = SettledGradients;
  Sums of[kTransposed ? 2 : 1];
  int softmax;
};

__device__ __forceinline__ void clear(State& st) {
  st.softmax = 0;
#pragma unroll
  for (auto& sums : st.of) {
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int c = 0; c < kColumnsEach; ++c) sums[r][c] = 0;
    }
  }
}

/// Columns turn, so that the code stands once for all of them.
__device__ __forceinline__ void settle(Shared&, State& st, SettledGradients& to, bool begun, bool last) {
#pragma unroll 1
  for (int c = 0; c < kColumnsEach; ++c) {
#pragma unroll
    for (int part = 0; part < (kTransposed ? 2 : 1); ++part) {
      Sums& sums = st.of[part];
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r) {
        const float left = settle_sum(to.sums[part][c * kRowsEach + r], sums[r][0], 1, begun, last);
#pragma unroll
        for (int i = 0; i < kColumnsEach - 1; ++i) sums[r][i] = sums[r][i + 1];
        sums[r][kColumnsEach - 1] = left;
      }
    }
  }
}

/// From products to what pick(gradient of the pair, row of the thread, product, q, k) takes of them, in the place of both. Loops that are not unrolled turn
/// the registers by one, because an index would put them on the stack.
template <typename Pairs, typename Pick>
__device__ __forceinline__ void each_gradient_of_pair(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                                      bool masked, Scores& p, Scores& d, const Pick& pick) {
  constexpr int kKeysAtOnce = kPairsAreShort<Pairs> ? kKeysEach : Pairs::kKeysAtOnce;
  constexpr int kRowsAtOnce = kPairsAreShort<Pairs> ? kRowsEach : Pairs::kRowsAtOnce;
  Draws<Pairs> draws(a);
#pragma unroll(kKeysAtOnce)
  for (int j = 0; j < kKeysEach; ++j) {
    const int number = min(key_of(j), count - 1);
    const int y = get(s.key[from + number]);
    const float of_key = key_of(j) < count ? weight_of_key(s, from + number) : -infinity();
    unsigned digits[kPlanes] = {};
    if (masked) {
#pragma unroll
      for (int i = 0; i < kPlanes; ++i)
        digits[i] = load_shared<unsigned>(kept_at(s, i * kBitWords + j / 4)) >> j % 4 * 8;
    }
    float2 terms = {};
    if (kTransposed) terms = load_shared<float2>(&s.terms[key_of(j)]);
    float products[kRowsEach], d_weights[kRowsEach];
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
      products[r] = p[r][0];
      d_weights[r] = d[r][0];
    }
#pragma unroll(kRowsAtOnce)
    for (int r = 0; r < kRowsEach; ++r) {
      if (!kTransposed) terms = load_shared<float2>(&s.terms[row_of(r)]);
      int x = 0;
      if (!kPairsAreShort<Pairs>) x = get(s.x[row_of(r)]);
      const int q = kTransposed ? y : x, k = kTransposed ? x : y;
      const PairGradient pair =
          gradient_of_pair<Pairs>(a, t, products[0], d_weights[0], masked ? weight_of_pair(digits) : of_key, terms,
                                  draws.scaled(t, q, k), 1, q, k);
      const float2 of = pick(pair, r, products[0], q, k);
#pragma unroll
      for (int i = 0; i < kPlanes; ++i) digits[i] >>= 1;
#pragma unroll
      for (int i = 0; i < kRowsEach - 1; ++i) {
        products[i] = products[i + 1];
        d_weights[i] = d_weights[i + 1];
      }
      products[kRowsEach - 1] = of.x;
      d_weights[kRowsEach - 1] = of.y;
    }
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int i = 0; i < kKeysEach - 1; ++i) {
        p[r][i] = p[r][i + 1];
        d[r][i] = d[r][i + 1];
      }
      p[r][kKeysEach - 1] = products[r];
      d[r][kKeysEach - 1] = d_weights[r];
    }
  }
}

/// scores = rows of the tile times rows of keys.
template <bool kBusy, int kPart>
__device__ __forceinline__ void multiply_part(Shared& s, const Views& w, const BothRows& rows, Scores& scores) {
  ChunkOfColumns columns = {};
  if (w.aligned) columns = load_columns(rows.of[kPart], 0);
  store_columns(s, places_of_columns(), 0, columns);
  if (!w.aligned) stage_each_column<kDimOf<kPart>>(s.stage, rows.of[kPart], 0);
  multiply_scores<kBusy, kDimOf<kPart>>(s, rows.of[kPart], w.aligned, columns, scores, [&] {
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) scores[r][j] = 0;
    }
  });
}

/// sums += weights times rows of keys.
template <bool kBusy, int kPart>
__device__ __forceinline__ void sum_up(Shared& s, const Views& w, Sums& sums, bool masked, Scores& weights) {
  const ValueRows rows = s.value_row[kPart];
  const bool strange = masked && values_are_strange<kDimOf<kPart>>(rows, w.aligned);
  ChunkOfValues values = {};
  if (w.aligned) values = load_values(rows, 0);
  store_values(s.stage, values);
  if (!w.aligned) stage_each_value<kDimOf<kPart>>(s.stage, rows, 0);
  multiply_values<kBusy, kDimOf<kPart>>(s, rows, sums, values, w.aligned, strange, weights, [](int) {});
}

template <typename Pairs, bool kBusy>
__device__ __forceinline__ void compute_block(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                              const BothRows& rows, int from, int count, bool masked) {
  Scores p, d;
  multiply_part<kBusy, 0>(s, w, rows, p);
  multiply_part<kBusy, 1>(s, w, rows, d);
  if (kBusy) {
    each_gradient_of_pair<Pairs>(a, s, t, from, count, masked, p, d,
                                 [](const PairGradient& of, auto...) { return make_float2(of.weight, of.d_score); });
  }
  if constexpr (kTransposed) sum_up<kBusy, 1>(s, w, st.of[1], masked, p);
  sum_up<kBusy, 0>(s, w, st.of[0], masked, d);
}

/// Of deltas there are two products only.
template <typename Pairs, bool kBusy>
__device__ __forceinline__ void compute_block(const weft_args& a, Shared& s, Deltas& st, const Views& w, const Tile& t,
                                              const BothRows& rows, int from, int count, bool masked) {
  Scores p, d;
  multiply_part<kBusy, 0>(s, w, rows, p);
  multiply_part<kBusy, 1>(s, w, rows, d);
  if (!kBusy) return;
  each_gradient_of_pair<Pairs>(a, s, t, from, count, masked, p, d,
                               [](const PairGradient& of, auto...) { return make_float2(of.plain, of.share); });
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
    for (int j = 0; j < kKeysEach; ++j) {
      st.l[r] += p[r][j];
      st.e[r] += d[r][j];
    }
  }
}

/// One block of keys: the `count` from number `from` of the list on.
template <typename Pairs, typename State>
__device__ __forceinline__ void attend_block(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                             int from, int count, bool partial, bool mixed) {
  const Work work = work_of_block(a, s, t, from, count, partial, mixed);
  if (work.none) return;
  const BothRows rows = rows_of_thread(a, s, w, t, from, count, st.softmax);
  if (work.busy) {
    compute_block<Pairs, true>(a, s, st, w, t, rows, from, count, work.masked);
  } else {
    compute_block<Pairs, false>(a, s, st, w, t, rows, from, count, work.masked);
  }
}
