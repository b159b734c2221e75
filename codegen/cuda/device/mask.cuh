#pragma once

#include "codegen/cuda/device/mma_lanes.cuh"

// Partial blocks: which of a thread's pairs are kept, and by how many branches, as bits. A class gives a thread
// kBitWords words of 32 pairs each, says which row and key a bit is, and fills a word by what rows and keys say.

/// The digits of how many branches keep each pair; without such counts there is one.
constexpr int kPlanes = kCounts ? kDigits : 1;
struct Kept {
  unsigned digits[kPlanes][kBitWords];
};

/// The pairs of a word that some branch keeps.
__device__ __forceinline__ unsigned kept_by_any(const Kept& kept, int word) {
  unsigned bits = 0;
#pragma unroll
  for (int d = 0; d < kPlanes; ++d) bits |= kept.digits[d][word];
  return bits;
}

__device__ __forceinline__ void add_branch(Kept& kept, const unsigned (&more)[kBitWords]) {
#pragma unroll
  for (int i = 0; i < kBitWords; ++i) {
    unsigned carry = more[i];
#pragma unroll
    for (int d = 0; d < kPlanes; ++d) {
      const unsigned sum = kCounts ? kept.digits[d][i] ^ carry : kept.digits[d][i] | carry;
      carry &= kept.digits[d][i];
      kept.digits[d][i] = sum;
    }
  }
}

/// Are all pairs of a word kept, and is nothing more to be said of them?
__device__ __forceinline__ bool all_are_kept(const Kept& kept, int word) {
  return !kCounts && kept.digits[0][word] == kAllBits;
}

/// Does no branch keep a pair of a word that another keeps?
__device__ __forceinline__ bool none_count_twice(const Kept& kept, int word) {
  unsigned bits = 0;
#pragma unroll
  for (int d = 1; d < kPlanes; ++d) bits |= kept.digits[d][word];
  return bits == 0;
}

/// x times the number of branches that keep the pair of a bit.
__device__ __forceinline__ void count_pair(const Kept& kept, int word, int bit, float& x) {
  float sum = kept.digits[0][word] & 1u << bit ? x : 0;
#pragma unroll
  for (int d = 1; d < kPlanes; ++d) sum = kept.digits[d][word] & 1u << bit ? __fmaf_rn(x, (float)(1 << d), sum) : sum;
  // fault(no_counts_of_partial_blocks) leaves this out
  x = sum;
}

/// Calls use(word, number of it) for every word, in a loop that stands in the text once. Words go by turns, because an
/// index would put them on the stack.
template <typename Use>
__device__ __forceinline__ void each_word(unsigned (&words)[kBitWords], const Use& use) {
  static_assert(kBitWords <= 2, "the last two stay");
#pragma unroll 1
  for (int i = 0; i < kBitWords; ++i) {
    unsigned word = words[0];
    words[0] = words[kBitWords - 1];
    use(word, i);
    words[kBitWords - 1] = word;
  }
}

/// Without the pairs that fail the term's conditions.
__device__ __forceinline__ unsigned keep_holding(const weft_args& a, Shared& s, const Tile& t, const Term& term,
                                                 unsigned kept, int word) {
#pragma unroll 1
  for (unsigned rest = kept; rest != 0; rest &= rest - 1) {
    const int bit = __ffs((int)rest) - 1;
    const int q = get(s.x[row_of_bit(word, bit)]), k = get(s.meets.key[key_of_bit(word, bit)]);
    // fault(mask_of_a_neighbouring_row) also:
    //   if (!holds_pair(a, s, t, term, get(s.x[row_of_bit(word, bit ^ 1)]), k)) kept &= ~(1u << bit);
    // fault(mask_of_a_neighbouring_key) also:
    //   if (!holds_pair(a, s, t, term, q, get(s.meets.key[key_of_bit(word, bit ^ 8)]))) kept &= ~(1u << bit);
    if (!holds_pair(a, s, t, term, q, k)) kept &= ~(1u << bit);
  }
  return kept;
}

/// Pairs of a block of `count` keys from place `from` of the list on, which ascend where they are not `mixed`.
__device__ __forceinline__ void weigh_pairs(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                            bool mixed, Kept& kept) {
  const i64* const pass = get(s.pass);
  const int terms = (int)word(pass + kTerms);
  const int lowest = mixed ? kNoKey : get(s.key[from]), highest = mixed ? kLargest : get(s.key[from + count - 1]);
  unsigned group[kBitWords] = {};
  int branch = -1;  // of the group; the one of the end is -2
  kept = {};
#pragma unroll 1
  for (int i = 0; i <= terms; ++i) {
    const Term& term = terms_of(s)[min(i, terms - 1)];
    const bool end = i == terms;
    if (!end && (highest < get(term.keys.may_lo) || lowest >= get(term.keys.may_hi))) continue;
    const int its_branch = end ? -2 : get(term.branch);
    if (its_branch != branch) {
      add_branch(kept, group);
#pragma unroll
      for (int j = 0; j < kBitWords; ++j) group[j] = 0;
      branch = its_branch;
    }
    if (end) break;
    // fault(rows_of_another_term) value: kKeepsMeets && get(s.met_term) >= 0
    const bool known = kKeepsMeets && get(s.met_term) == i;
    meet_term(a, s, t, pass + kTermsAt + i * kTermWords, term, from, count, known);
    __syncthreads();
    if (kKeepsMeets && threadIdx.x == 0) put(s.met_term, i);
    const int open = kConditions > 0 ? get(term.open) : 0;
    const bool bounded = !mixed && bounds_decide(s, term);
    unsigned by_term[kBitWords];  // not at once into `group`: that takes a register more
    each_word(by_term, [&](unsigned& kept_by_term, int number) {
      const bool negated = (open & kValueNegated) != 0;
      const Verdict verdict = verdict_of(s, row_of_bit(number, 0) / kGroupRows, negated);
      kept_by_term = verdict == kSomeAreKept ? keep_by_term(s, number, negated, from, count, bounded) : verdict == kAllAreKept ? kAllBits : 0;
      if (open & kAsksPairs) kept_by_term = keep_holding(a, s, t, term, kept_by_term, number);
    });
#pragma unroll
    for (int j = 0; j < kBitWords; ++j) group[j] |= by_term[j];
    __syncthreads();
  }
}
