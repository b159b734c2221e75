#pragma once

#include "codegen/cuda/device/lanes.cuh"

// Partial blocks: how many branches keep each pair. A thread counts for its own pairs, in bytes: word 2 j + r / 4 has
// those of key j and four rows. They stand where P will.

__device__ __forceinline__ unsigned* counts_at(Shared& s, int word) {
  return (unsigned*)part_of_rows(s) + (warp_of_columns() * (kKeysEach * 2) + word) * 32 + threadIdx.x % 32;
}

/// Sets bit 8 * key + row for each of the pairs of four of the thread's keys that the term keeps.
__device__ __forceinline__ unsigned kept_by_term(Shared& s, int four, bool negated) {
  unsigned kept = 0;
  const int4 hit = load_shared<int4>(&s.meets.key[key_of(4 * four)]);
  int4 fails = {}, value = {};
  if (kConditions > 0) fails = load_shared<int4>(&s.meets.fails[key_of(4 * four)]);
  if (kByValues) value = load_shared<int4>(&s.meets.value[key_of(4 * four)]);
  const OfKey keys[4] = {{hit.x, value.x, (unsigned)fails.x},
                         {hit.y, value.y, (unsigned)fails.y},
                         {hit.z, value.z, (unsigned)fails.z},
                         {hit.w, value.w, (unsigned)fails.w}};
#pragma unroll 1
  for (int r = 0; r < kRowsEach; ++r) {
    const OfRow row = of_row(s, row_of(r));
#pragma unroll
    for (int k = 0; k < 4; ++k) kept |= (keeps(row, keys[k], negated) ? 1u : 0u) << (8 * k + r);
  }
  return kept;
}

/// Without the pairs that fail the term's conditions.
__device__ __forceinline__ unsigned keep_holding(const weft_args& a, Shared& s, const Tile& t, const Term& term,
                                                 unsigned kept, int four) {
#pragma unroll 1
  for (unsigned left = kept; left != 0; left &= left - 1) {
    const int bit = __ffs((int)left) - 1;
    const int q = get(s.x[row_of(bit % 8)]), k = get(s.meets.key[key_of(4 * four + bit / 8)]);
    if (!holds_pair(a, s, t, term, q, k)) kept &= ~(1u << bit);
  }
  return kept;
}

/// Sets or raises the counts of four keys by 1 where `kept` says so.
__device__ __forceinline__ void add_kept(Shared& s, unsigned kept, int four, bool anew) {
#pragma unroll 1
  for (int i = 0; i < 8; ++i) {
    unsigned* const at = counts_at(s, 8 * four + i);
    const unsigned bytes = (kept & 15) * 0x00204081u & 0x01010101u;  // a bit to a byte
    store_shared(at, (anew ? 0 : load_shared<unsigned>(at)) + bytes);
    kept >>= 4;
  }
}

constexpr int kKeyFours = kKeysEach / 4;

/// Puts `kept` in the place of the first word and moves that to the end: loops over words that are not unrolled turn
/// registers, because an index would put them on the stack.
__device__ __forceinline__ void turn(unsigned (&words)[kKeyFours], unsigned kept) {
  words[0] = words[kKeyFours - 1];
  words[kKeyFours - 1] = kept;
}

/// The zones that a block's keys are from; mixed: it begins with those of full zones, which fill no block of their own.
enum Sweep { kOfFull, kOfPartial, kOfMixed };

/// Counts for a block of `count` keys from number `from` of the list on. Returns whether some pair of the warp is kept.
__device__ __forceinline__ bool weigh_pairs(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                            bool mixed) {
  const i64* const pass = get(s.pass);
  const int terms = (int)word(pass + kTerms);
  // Keys ascend, but for a mixed block.
  const int lowest = mixed ? 0 : get(s.key[from]), highest = mixed ? kLargest : get(s.key[from + count - 1]);
  unsigned group[kKeyFours] = {}, some = 0;
  int branch = -1;  // of the group; the one of the end is -2
#pragma unroll 1
  for (int i = 0; i <= terms; ++i) {
    const Term& term = terms_of(s)[min(i, terms - 1)];
    const bool end = i == terms;
    if (!end && (!get(term.live) || highest < get(term.may_lo) || lowest >= get(term.may_hi))) continue;
    const int its_branch = end ? -2 : get(term.branch);
    if (its_branch != branch) {
#pragma unroll 1
      for (int four = 0; four < kKeyFours; ++four) {
        add_kept(s, group[0], four, branch < 0);
        turn(group, 0);
      }
      branch = its_branch;
    }
    if (end) break;
    meet_term(a, s, t, pass + kTermsAt + i * kTermWords, term, from, count);
    __syncthreads();
    const int open = kConditions > 0 ? get(term.open) : 0;
#pragma unroll 1
    for (int four = 0; four < kKeyFours; ++four) {
      unsigned kept = kept_by_term(s, four, (open & kValueNegated) != 0);
      if (open & kAsksPairs) kept = keep_holding(a, s, t, term, kept, four);
      some |= kept;
      turn(group, group[0] | kept);
    }
    __syncthreads();
  }
  return __any_sync(0xFFFFFFFFu, some != 0);
}
