#pragma once

#include "codegen/cuda/device/keys.cuh"

// Weights of the pairs of a partial block: for every row and key, the number of branches that keep the pair.

/// Thread (row group, key group): rows 8 * group .. + 7 and keys 4 * lane .. + 3 of a block of 64 × 64.
constexpr int kRowsEach = 8, kKeysEach = 4;

__device__ __forceinline__ int row_group() { return threadIdx.x / 16; }
__device__ __forceinline__ int lane_of_row() { return threadIdx.x % 16; }

/// P[key][row], four rows at once. Rows change places by the key, so that the 8 × 4 results of a thread are stored
/// without bank conflicts.
__device__ __forceinline__ float* weight_at(Shared& s, int key, int four_rows) {
  return &s.weights[key * kRows + ((four_rows ^ (key / kKeysEach % 16)) * 4)];
}

/// Sets bit 8 * key + row of `kept` for each of the thread's pairs that the term keeps.
__device__ __forceinline__ unsigned kept_by_term(Shared& s) {
  unsigned kept = 0;
  const int first_row = row_group() * kRowsEach;
  const int4 hit = load_shared<int4>(&s.hit[lane_of_row() * kKeysEach]);
  const int y[kKeysEach] = {hit.x, hit.y, hit.z, hit.w};
#pragma unroll 1
  for (int r = 0; r < kRowsEach; ++r) {
    const int lo = get(s.row_lo[first_row + r]), hi = get(s.row_hi[first_row + r]);
#pragma unroll
    for (int k = 0; k < kKeysEach; ++k) kept |= ((y[k] >= lo) & (y[k] < hi) ? 1u : 0u) << (8 * k + r);
  }
  return kept;
}

/// Without the pairs that fail the term's conditions.
__device__ __forceinline__ unsigned keep_holding(const weft_args& a, Shared& s, const Tile& t, const Term& term,
                                                 unsigned kept) {
#pragma unroll 1
  for (unsigned left = kept; left != 0; left &= left - 1) {
    const int bit = __ffs((int)left) - 1;
    const int q = get(s.x[row_group() * kRowsEach + bit % 8]), k = get(s.hit[lane_of_row() * kKeysEach + bit / 8]);
    if (!holds_pair(a, s, t, term, q, k)) kept &= ~(1u << bit);
  }
  return kept;
}

/// Sets or raises the thread's own weights, by 1 where `kept` says so; a weight that is never raised is -0. Nobody else
/// touches them before a barrier.
__device__ __forceinline__ void add_kept(Shared& s, unsigned kept, bool anew) {
#pragma unroll 1
  for (int four = 0; four < 2 * kKeysEach; ++four) {
    float* const at = weight_at(s, lane_of_row() * kKeysEach + four / 2, row_group() * 2 + four % 2);
    float4 w = anew ? make_float4(-0.0f, -0.0f, -0.0f, -0.0f) : load_shared<float4>(at);
    w.x += kept & 1 ? 1 : -0.0f;
    w.y += kept & 2 ? 1 : -0.0f;
    w.z += kept & 4 ? 1 : -0.0f;
    w.w += kept & 8 ? 1 : -0.0f;
    store_shared(at, w);
    kept >>= 4;
  }
}

/// The interval of keys that each row of the tile keeps by one term, and which keys of the block the term hits.
__device__ __forceinline__ void meet_term(const weft_args& a, Shared& s, const Tile& t, const i64* words,
                                          const Term& term, int from, int count) {
  if (threadIdx.x < kRows) {
    const int x = get(s.x[threadIdx.x]);
    const Reach keys = reach_of(a, s, t, words, x, 0);
    const Bits bits = bits_of(words);
    const u64 met_bits = get(s.bits[threadIdx.x]);
    const bool met = ((bits.need & ~met_bits) | (bits.miss & met_bits)) == 0 && keys.fails == 0;
    put(s.row_lo[threadIdx.x], keys.lo);
    put(s.row_hi[threadIdx.x], met ? keys.hi : keys.lo);
  } else {
    const int k = threadIdx.x - kRows;
    const int y = k < count ? get(s.key[from + k]) : -1;
    const bool hit = y >= 0 && hits(a, term, y) && (kConditions == 0 || may_hold(a, s, t, term, y));
    put(s.hit[k], hit ? y : -1);
  }
}
static_assert(kRows + kKeys == kThreads, "one thread per row and one per key");

/// Weights of a block of `count` keys from number `from` of the list on, kept in s.weights by the threads that will
/// use them. Returns whether some pair of the warp is kept.
__device__ __forceinline__ bool weigh_pairs(const weft_args& a, Shared& s, const Tile& t, const i64* pass, int terms,
                                            int from, int count) {
  const int lowest = get(s.key[from]), highest = get(s.key[from + count - 1]);
  unsigned group = 0, some = 0;
  int branch = -1;  // of the group; the one of the end is -2
#pragma unroll 1
  for (int i = 0; i <= terms; ++i) {
    const Term& term = terms_of(s)[min(i, terms - 1)];
    const bool end = i == terms;
    if (!end && (!get(term.live) || highest < get(term.may_lo) || lowest >= get(term.may_hi))) continue;
    const int its_branch = end ? -2 : get(term.branch);
    if (its_branch != branch) {
      add_kept(s, group, branch < 0);
      group = 0;
      branch = its_branch;
    }
    if (end) break;
    meet_term(a, s, t, pass + kTermsAt + i * kTermWords, term, from, count);
    __syncthreads();
    unsigned kept = kept_by_term(s);
    if (kConditions > 0) kept = keep_holding(a, s, t, term, kept);
    group |= kept;
    some |= group;
    __syncthreads();
  }
  return __any_sync(0xFFFFFFFFu, some != 0);
}
