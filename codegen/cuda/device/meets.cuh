#pragma once

#include "codegen/cuda/device/tile.cuh"

// What one term says of a block of keys, once for each row and once for each key, so that a pair is decided by a few
// comparisons: an interval of keys, bits of runs of rows, and an interval of the key's value. Of conditions that say more
// every pair is asked. Rows in groups and keys in warps say the same together: where that decides all pairs of a group, none
// is looked at.

/// The keys that a row keeps by the term, and what it says to the term's conditions; and what its group says. By whole
/// warps: behind the tile's last row lanes ask that one again, and are not heard.
__device__ __forceinline__ void meet_row(const weft_args& a, Shared& s, const Tile& t, const i64* words,
                                         const Term& term, int thread) {
  const bool is_row = kRows % 32 == 0 || thread < kRows;
  const int row = is_row ? thread : kRows - 1, x = get(s.x[row]);
  Reach keys = reach_of(a, s, t, words, x, 0);
  narrow_reach(a, s, t, term, words, x, keys);
  const Bits bits = bits_of(words);
  const u64 met_bits = kHasRowBits ? get(s.bits[row]) : 0;
  const bool met = ((bits.need & ~met_bits) | (bits.miss & met_bits)) == 0 && keys.fails == 0;
  SaidByRow said = {0, 0, 0};
  if (kConditions > 0) {
    said = ask_row(a, s, t, term, x);
    if (is_row) put(s.meets.runs[row], said.runs);
    if (kByValues && is_row) {
      put(s.meets.least[row], said.least);
      put(s.meets.most[row], said.most);
    }
  }
  const int lo = keys.lo, hi = met ? keys.hi : keys.lo;
  if (is_row) {
    put(s.meets.lo[row], lo);
    put(s.meets.hi[row], hi);
  }
  constexpr int kOf = kGroupRows;
  const int group = row / kOf;
  const bool speaks = row % kOf == 0;  // for its group
  const int4 ends = {most_of<kOf>(lo), least_of<kOf>(hi), least_of<kOf>(lo), most_of<kOf>(hi)};
  if (speaks) put(s.meets.group_keys[group], ends);
  if (kConditions > 0) {
    const unsigned runs = (unsigned)over_lanes<kOf>((int)said.runs, [](int a, int b) { return a | b; });
    if (speaks) put(s.meets.group_runs[group], runs);
  }
  if (kByValues) {
    const int4 values = {most_of<kOf>(said.least), least_of<kOf>(said.most), least_of<kOf>(said.least),
                         most_of<kOf>(said.most)};
    if (speaks) put(s.meets.group_values[group], values);
  }
}

/// Does the term hit key y, and what is there for rows to compare; and what do a warp's keys say together? By whole
/// warps: a number may lie behind the block's last key, whose y is kNoKey, as is that of places without a key.
__device__ __forceinline__ void meet_key(const weft_args& a, Shared& s, const Tile& t, const Term& term, int number,
                                         int y) {
  bool hit = y != kNoKey && hits(a, term, y);
  SaidOfKey said = {0, 0};
  if (kConditions > 0 && hit) said = ask_key(a, s, t, term, y, hit);
  const int key = hit ? y : kNoKey;
  if (number < kKeys) {
    put(s.meets.key[number], key);
    if (kConditions > 0) put(s.meets.fails[number], said.fails);
    if (kByValues) put(s.meets.value[number], said.value);
  }
  const int hits_of_warp = (int)__ballot_sync(0xFFFFFFFFu, hit && number < kKeys);
  int4 keys = {least_of<32>(number < kKeys ? key : kLargest), most_of<32>(key), least_of<32>(hit ? y : kLargest),
               hits_of_warp};
  int4 rest = {0, 0, 0, hits_of_warp};
  if (kConditions > 0) {
    keys.w = over_lanes<32>(hit ? (int)said.fails : 0, [](int a, int b) { return a | b; });
    rest.x = over_lanes<32>(hit ? (int)said.fails : -1, [](int a, int b) { return a & b; });
  }
  if (kByValues) {
    rest.y = least_of<32>(hit ? said.value : kLargest);
    rest.z = most_of<32>(hit ? said.value : -kLargest - 1);
  }
  if (threadIdx.x % 32 != 0) return;
  put(s.meets.of_keys[number / 32], keys);
  if (kConditions > 0) put(s.meets.of_values[number / 32], rest);
}

constexpr int kLanesOfRows = (kRows + 31) / 32 * 32;
static_assert(kLanesOfRows <= kThreads && kKeys <= kThreads, "one thread per row and one per key");

/// Of `count` keys from number `from` of the list on. The rows may have said theirs for a block before.
__device__ __forceinline__ void meet_term(const weft_args& a, Shared& s, const Tile& t, const i64* words,
                                          const Term& term, int from, int count, bool rows_are_known) {
  const unsigned thread = thread_anew();
  if (thread < kLanesOfRows && !rows_are_known) meet_row(a, s, t, words, term, (int)thread);
  const int k = (kThreads - 1 - (int)thread) ^ 31;  // warps without rows first
  if (k / 32 < kKeyWarps) meet_key(a, s, t, term, k, k < count ? get(s.key[from + k]) : kNoKey);
}

/// The keys of a warp that the term hits, as bits.
__device__ __forceinline__ unsigned hits_of(Shared& s, int warp) {
  return (unsigned)(kConditions > 0 ? get(s.meets.of_values[warp]) : get(s.meets.of_keys[warp])).w;
}

/// Do bounds and hits alone decide what the term keeps of the block?
__device__ __forceinline__ bool bounds_decide(Shared& s, const Term& term) {
  // Where bounds make runs, those decide nearly all that is left to them.
  constexpr bool kAsks = !kGradient && kDim <= 64;
  if (kByValues && (kAsks || get(term.conditions) != 0)) return false;
  int fails = 0;
#pragma unroll
  for (int w = 0; w < kKeyWarps && kConditions > 0; ++w) fails |= get(s.meets.of_keys[w].w);
  return fails == 0;
}

/// How many of `count` ascending keys from place `from` of the list on lie below y.
__device__ __forceinline__ int keys_below(Shared& s, int from, int count, int y) {
  constexpr int kFirstStep = kKeys < 32 ? 16 : kKeys < 64 ? 32 : kKeys < 128 ? 64 : 128;
  static_assert(kKeys < 2 * kFirstStep);
  int below = 0;
#pragma unroll
  for (int step = kFirstStep; step > 0; step /= 2) {
    const int next = below + step;
    if (next <= count && get(s.key[from + next - 1]) < y) below = next;
  }
  return below;
}

/// What all pairs of a group of rows with the block's keys are, as far as that is not asked of each.
enum Verdict { kSomeAreKept, kNoneIsKept, kAllAreKept };
__device__ __forceinline__ Verdict verdict_of(Shared& s, int group, bool negated) {
  int4 keys = get(s.meets.of_keys[0]), rest = kConditions > 0 ? get(s.meets.of_values[0]) : make_int4(0, 0, 0, 0);
#pragma unroll
  for (int w = 1; w < kKeyWarps; ++w) {
    const int4 more = get(s.meets.of_keys[w]);
    keys = make_int4(min(keys.x, more.x), max(keys.y, more.y), min(keys.z, more.z), keys.w | more.w);
    if (kConditions == 0) continue;
    const int4 more_rest = get(s.meets.of_values[w]);
    rest = make_int4(rest.x & more_rest.x, min(rest.y, more_rest.y), max(rest.z, more_rest.z), 0);
  }
  const int4 ends = get(s.meets.group_keys[group]);
  bool all = keys.x >= ends.x && keys.y < ends.y;
  // fault(keys_that_the_first_row_does_not_keep) also: all = keys.x >= ends.x && keys.y < ends.w;
  // fault(keys_before_the_last_row_begins) also: all = keys.x >= ends.z && keys.y < ends.y;
  bool none = keys.y < ends.z || keys.z >= ends.w;
  // fault(none_of_keys_that_some_row_keeps) also: none = keys.y < ends.z || keys.y >= ends.w;
  if (kConditions > 0) {
    const unsigned runs = get(s.meets.group_runs[group]);
    // fault(runs_that_fail_for_some_keys) leaves this out
    all = all && (runs & (unsigned)keys.w) == 0;
    // fault(runs_that_fail_for_some_keys_fail_for_all) also: none = none || (runs != 0 && (runs & keys.w) != 0);
    none = none || (runs != 0 && (runs & ~(unsigned)rest.x) == 0);
  }
  if (kByValues) {
    const int4 values = get(s.meets.group_values[group]);
    const bool inside = rest.y >= values.x && rest.z <= values.y, outside = rest.z < values.z || rest.y > values.w;
    // fault(a_value_the_first_row_does_not_keep) instead:
    //   all = all && (negated ? outside : rest.y >= values.x && rest.z <= values.w);
    all = all && (negated ? outside : inside);
    none = none || (negated ? inside : outside);
  }
  return none ? kNoneIsKept : all ? kAllAreKept : kSomeAreKept;
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
  // fault(mask_one_too_far) also: kept |= (key.y >= row.lo) & (key.y == row.hi);
  // fault(mask_one_too_short) also: kept &= key.y > row.lo;
  // fault(runs_that_fail_are_kept) leaves this out
  if (kConditions > 0) kept = kept & ((row.runs & key.fails) == 0);
  // fault(one_value_less_of_a_row) also: kept &= negated || key.value > row.least;
  // fault(one_value_more_of_a_row) instead:
  //   if (kByValues) kept = kept & (((key.value >= row.least) & (key.value <= row.most + 1)) != negated);
  if (kByValues) kept = kept & (((key.value >= row.least) & (key.value <= row.most)) != negated);
  return kept;
}
