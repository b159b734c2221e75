#pragma once

#include "codegen/cuda/device/tile.cuh"

// What one term says of a block of keys, once for each row and once for each key, so that a pair is decided by a few
// comparisons: an interval of keys, bits of runs of rows, and an interval of the key's value. Of conditions that say more
// every pair is asked.

/// The keys that a row keeps by the term, and what it says to the term's conditions.
__device__ __forceinline__ void meet_row(const weft_args& a, Shared& s, const Tile& t, const i64* words,
                                         const Term& term, int row) {
  const int x = get(s.x[row]);
  const Reach keys = reach_of(a, s, t, words, x, 0);
  const Bits bits = bits_of(words);
  const u64 met_bits = get(s.bits[row]);
  bool met = ((bits.need & ~met_bits) | (bits.miss & met_bits)) == 0 && keys.fails == 0;
  if (kConditions > 0) {
    const SaidByRow said = ask_row(a, s, t, term, x);
    met = met && said.meets;
    put(s.meets.runs[row], said.runs);
    if (kByValues) {
      put(s.meets.least[row], said.least);
      put(s.meets.most[row], said.most);
    }
  }
  put(s.meets.lo[row], keys.lo);
  put(s.meets.hi[row], met ? keys.hi : keys.lo);
}

/// Does the term hit key y, and what is there for rows to compare?
__device__ __forceinline__ void meet_key(const weft_args& a, Shared& s, const Tile& t, const Term& term, int number,
                                         int y) {
  bool hit = y >= 0 && hits(a, term, y);
  if (kConditions > 0) {
    SaidOfKey said = {0, 0};
    if (hit) said = ask_key(a, s, t, term, y, hit);
    put(s.meets.fails[number], said.fails);
    if (kByValues) put(s.meets.value[number], said.value);
  }
  put(s.meets.key[number], hit ? y : -1);
}

static_assert(kRows <= kThreads && kKeys <= kThreads, "one thread per row and one per key");

/// Of `count` keys from number `from` of the list on.
__device__ __forceinline__ void meet_term(const weft_args& a, Shared& s, const Tile& t, const i64* words,
                                          const Term& term, int from, int count) {
  const unsigned thread = thread_anew();
  if (thread < kRows) meet_row(a, s, t, words, term, (int)thread);
  const int k = kThreads - 1 - (int)thread;  // threads without a row first
  if (k < kKeys) meet_key(a, s, t, term, k, k < count ? get(s.key[from + k]) : -1);
}

/// What a row says, in registers.
struct OfRow {
  int lo, hi, least, most;
  unsigned runs;
};
__device__ __forceinline__ OfRow of_row(Shared& s, int row) {
  OfRow of = {get(s.meets.lo[row]), get(s.meets.hi[row]), 0, 0, 0};
  if (kConditions > 0) of.runs = get(s.meets.runs[row]);
  if (kByValues) {
    of.least = get(s.meets.least[row]);
    of.most = get(s.meets.most[row]);
  }
  return of;
}

/// … and what is said of a key.
struct OfKey {
  int y, value;
  unsigned fails;
};

/// Does the row keep the key, as far as that does not ask for the pair?
__device__ __forceinline__ bool keeps(const OfRow& row, const OfKey& key, bool negated) {
  bool kept = (key.y >= row.lo) & (key.y < row.hi);
  if (kConditions > 0) kept = kept & ((row.runs & key.fails) == 0);
  if (kByValues) kept = kept & (((key.value >= row.least) & (key.value <= row.most)) != negated);
  return kept;
}
