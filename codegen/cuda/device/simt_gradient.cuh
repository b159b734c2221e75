#pragma once

#include "codegen/cuda/device/gradient_deltas.cuh"
#include "codegen/cuda/device/simt_columns.cuh"
#include "codegen/cuda/device/simt_gradient_products.cuh"

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

/// What dropout makes of weights; where there is any, simt_gradient_dropout.cuh says so.
template <typename Pairs, bool = Pairs::kDrops>
struct Draws {
  __device__ __forceinline__ Draws(const weft_args&) {}
  __device__ __forceinline__ float scaled(const Tile&, int, int) { return 1; }
};

/// Does nobody say anything of single pairs, so that all of a thread stand side by side?
template <typename Pairs>
constexpr bool kPairsAreShort = !Pairs::kScored && !Pairs::kDrops;

/// From products to what pick(gradient of the pair, row of the thread, product, q, k) takes of them, in the place of
/// both. Loops that are not unrolled turn the registers by one, because an index would put them on the stack.
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

// Where pairs are short, S and dP need not stand side by side: P goes to shared memory, where dV wants it anyway, and
// dP takes the registers of S. A thread has 128 numbers of dK and dV beside 32, where 64 would spill.
template <typename Pairs>
constexpr bool kParksWeights = kPairsAreShort<Pairs> && !kDirect;

/// P of a pair that is not kept: nothing in sums, and no weight is.
constexpr unsigned kNotKept = 0x80000000u;

/// Two numbers of four queries in a row: what scores are measured from, and delta.
struct FourTerms {
  float measure[4], delta[4];
};
__device__ __forceinline__ FourTerms four_terms(Shared& s, int first) {
  const float4 two = load_shared<float4>(&s.terms[first]), others = load_shared<float4>(&s.terms[first + 2]);
  return {{two.x, two.z, others.x, others.z}, {two.y, two.w, others.y, others.w}};
}

/// From scores to P. `kPlain`: every pair of the block is kept.
template <bool kPlain>
__device__ __forceinline__ void find_weights(const weft_args& a, Shared& s, int from, int count, bool masked,
                                             Scores& p) {
  const float to_base_two = (float)a.scale * kToBaseTwo;
  float of_key[kKeysEach] = {};
  unsigned bits[kPlanes] = {};
#pragma unroll
  for (int j = 0; j < kKeysEach; ++j) {
    const bool there = kPlain || key_of(j) < count;
    of_key[j] = there ? weight_of_key(s, from + key_of(j)) : -infinity();
  }
#pragma unroll
  for (int i = 0; i < kPlanes && !kPlain && masked; ++i) bits[i] = load_shared<unsigned>(kept_at(s, i));
  FourTerms of_keys = {};
  if (kTransposed) of_keys = four_terms(s, key_of(0));
#pragma unroll
  for (int r = 0; r < kRowsEach; r += 4) {
    FourTerms of_rows = {};
    if (!kTransposed) of_rows = four_terms(s, row_of(r));
#pragma unroll
    for (int j = 0; j < kKeysEach; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        unsigned digits[kPlanes];
#pragma unroll
        for (int plane = 0; plane < kPlanes; ++plane) digits[plane] = bits[plane] >> (8 * j + r + i);
        const float weight = !kPlain && masked ? weight_of_pair(digits) : of_key[j];
        const float measure = kTransposed ? of_keys.measure[j] : of_rows.measure[i];
        const float one = weight_of_score(p[r + i][j], to_base_two, weight, measure);
        p[r + i][j] = kPlain || weight > -infinity() ? one : __uint_as_float(kNotKept);
      }
    }
  }
}

/// From dP to dS, by P as it was parked.
template <bool kPlain>
__device__ __forceinline__ void differentiate(Shared& s, Scores& d) {
  FourTerms of_keys = {};
  if (kTransposed) of_keys = four_terms(s, key_of(0));
#pragma unroll
  for (int r = 0; r < kRowsEach; r += 4) {
    FourTerms of_rows = {};
    if (!kTransposed) of_rows = four_terms(s, row_of(r));
#pragma unroll
    for (int j = 0; j < kKeysEach; ++j) {
      float p[4];
      // fault(parked_weights_of_other_rows) value: load_shared<float4>(own_part(s, 4 - r) + j * kOwnStep)
      const float4 parked = load_shared<float4>(own_part(s, r) + j * kOwnStep);
      unpack(p, parked);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float d_score = p[i] * (d[r + i][j] - (kTransposed ? of_keys.delta[j] : of_rows.delta[i]));
        d[r + i][j] = kPlain || __float_as_uint(p[i]) != kNotKept ? d_score : 0;
      }
    }
  }
}

template <typename Pairs, bool kBusy>
__device__ __forceinline__ void compute_block(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                              const BothRows& rows, int from, int count, bool masked) {
  Staging at = {};
  if constexpr (kParksWeights<Pairs>) {
    static_assert(kParts == 1 && kKeysEach == 4, "all of P has room");
    Scores x;
    if constexpr (kTransposed) {
      multiply_part<kBusy, 0>(s, w, rows, x, at, ValuesBehind<1>(s));
    } else {
      multiply_part<kBusy, 0>(s, w, rows, x, at, ColumnsBehind<1>(s, rows.of[1]));
    }
    const bool plain = !masked && count == kKeys;
    if (kBusy && plain) {
      find_weights<true>(a, s, from, count, false, x);
    } else if (kBusy) {
      find_weights<false>(a, s, from, count, masked, x);
    }
    if constexpr (kTransposed) {
      sum_up<kBusy, 1>(s, w, st.of[1], masked, x, at, ColumnsBehind<1>(s, rows.of[1]));
    } else if (kBusy) {
      sync_rows();  // nobody reads what is kept any more
      store_part(s, x);
    }
    multiply_part<kBusy, 1>(s, w, rows, x, at, ValuesBehind<0>(s));
    if (kBusy && plain) differentiate<true>(s, x);
    if (kBusy && !plain) differentiate<false>(s, x);
    sum_up<kBusy, 0>(s, w, st.of[0], masked, x, at);
    return;
  }
  Scores p, d;
  multiply_both<kBusy>(s, w, rows, p, d, at);
  if (kBusy) {
    each_gradient_of_pair<Pairs>(a, s, t, from, count, masked, p, d,
                                 [](const PairGradient& of, auto...) { return make_float2(of.weight, of.d_score); });
  }
  if constexpr (kTransposed) sum_up<kBusy, 1>(s, w, st.of[1], masked, p, at);
  sum_up<kBusy, 0>(s, w, st.of[0], masked, d, at);
}

/// Of deltas there are two products only.
template <typename Pairs, bool kBusy>
__device__ __forceinline__ void compute_block(const weft_args& a, Shared& s, Deltas& st, const Views& w, const Tile& t,
                                              const BothRows& rows, int from, int count, bool masked) {
  Staging at = {};
  Scores p, d;
  multiply_both<kBusy>(s, w, rows, p, d, at);
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
