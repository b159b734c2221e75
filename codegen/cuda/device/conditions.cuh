#pragma once

#include "codegen/cuda/device/rows.cuh"

// Conditions on pairs, beyond bounds and congruences: see compiler/ir/predicates.h and schedule.h. A tile asks what its
// rows say to each. Where neighbouring rows agree on the parts that read a row, the condition is one on keys.

// By number, of conditions and forms; texts that have any define these at their end.
__device__ __forceinline__ bool holds(const weft_args& a, const Tile& t, int condition, int q, int k);
__device__ __forceinline__ bool rows_agree(const weft_args& a, const Tile& t, int condition, int q, int other);
__device__ __forceinline__ int kind_of(int condition);     // of ConditionKind
__device__ __forceinline__ int modulus_of(int condition);  // more than 1 where key % modulus == lo is meant
__device__ __forceinline__ i64 key_of(const weft_args& a, const Tile& t, int condition, int k);
__device__ __forceinline__ i64 lo_of(const weft_args& a, const Tile& t, int condition, int q);
__device__ __forceinline__ i64 hi_of(const weft_args& a, const Tile& t, int condition, int q);
__device__ __forceinline__ i64 form_of(const weft_args& a, const Tile& t, int form, int q);
__device__ __forceinline__ int spans_of(int condition);  // number of the list that summarizes it so; -1 without one

/// The first row of every run of rows that agree, in order.
__device__ __forceinline__ int find_runs(const weft_args& a, Shared& s, const Tile& t, int condition) {
  static_assert(kRows <= kThreads, "a thread asks for one row");
  const int r = (int)thread_anew();  // the sums of another head may stand in registers
  // fault(boundary_at_a_warp_missed) value: right && r != 32
  const bool starts =
      r < t.count && (r == 0 || !rows_agree(a, t, condition, get(s.x[r % kRows]), get(s.x[(r + kRows - 1) % kRows])));
  const unsigned lanes = __ballot_sync(0xFFFFFFFFu, starts);
  if (r % 32 == 0) put(s.counts[r / 32], __popc(lanes));
  const int runs = __syncthreads_count(starts);
  int before = __popc(lanes & ((1u << r % 32) - 1));
  // fault(runs_of_the_second_warp_over_the_first) leaves this out
#pragma unroll 1
  for (int w = 0; w < r / 32; ++w) before += get(s.counts[w]);
  // fault(the_row_before_a_run_for_it) instead:
  //   if (starts && runs <= kMostRuns) put(s.conditions[condition].row[before], get(s.x[max(r - 1, 0)]));
  if (starts && runs <= kMostRuns) put(s.conditions[condition].row[before], get(s.x[r]));
  // fault(no_boundary_of_runs_seen) instead: return 1;
  // fault(more_runs_than_there_is_room_for) instead: return min(runs, kMostRuns);
  return runs <= kMostRuns ? runs : 0;
}

/// The least `lo` and the largest `hi` of an interval.
__device__ __forceinline__ void find_ends(const weft_args& a, Shared& s, const Tile& t, int condition) {
  i64* const ends = (i64*)&s;  // nobody needs the working memory yet
  static_assert(sizeof(WorkingMemory) >= 2 * kRows * sizeof(i64));
  const unsigned thread = thread_anew();
  if (thread < kRows) {
    const int x = get(s.x[thread]);
    put(ends[thread], lo_of(a, t, condition, x));
    put(ends[kRows + thread], hi_of(a, t, condition, x));
  }
  __syncthreads();
  if (thread >= 32) return;
  i64 lo = get(ends[thread % kRows]), hi = get(ends[kRows + thread % kRows]);
#pragma unroll 1
  for (int r = 32; r < kRows; r += 32) {
    lo = min(lo, get(ends[r + thread]));
    hi = max(hi, get(ends[kRows + r + thread]));
  }
  // fault(begins_of_the_first_row_alone) leaves this out
  lo = least_of<32, 1>(lo);
  // fault(ends_of_the_first_row_alone) leaves this out
  hi = most_of<32, 1>(hi);
  if (thread != 0) return;
  put(s.conditions[condition].lo, lo);
  put(s.conditions[condition].hi, hi);
}

/// Turns a condition into a bound of keys where it is one: value_bounds.cuh.
__device__ __forceinline__ bool find_keys_of_runs(const weft_args& a, Shared& s, const Tile& t, int condition,
                                                  int runs);

__device__ __forceinline__ void describe_conditions(const weft_args& a, Shared& s, const Tile& t) {
#pragma unroll 1
  for (int i = 0; i < kConditions; ++i) {
    int kind = kind_of(i), runs = 0;
    if (kind & kOnRows) {
      const bool mine = (int)threadIdx.x < t.count;
      const bool met = mine && holds(a, t, i, get(s.x[threadIdx.x % kRows]), 0);
      if (__syncthreads_or(met)) kind |= kSomeMeet;
      if (__syncthreads_or(mine && !met)) kind |= kSomeFail;
    } else {
      runs = find_runs(a, s, t, i);
    }
    if (kSpans && runs > 0 && spans_of(i) >= 0 && find_keys_of_runs(a, s, t, i, runs)) kind |= kBound;
    if ((kind & (kInterval | kBound)) == kInterval) find_ends(a, s, t, i);
    if (threadIdx.x == 0) {
      put(s.conditions[i].kind, kind);
      put(s.conditions[i].runs, runs);
    }
    __syncthreads();
  }
}

/// A condition, or its opposite, as a term asks for it.
struct Use {
  int condition;
  bool negated;
};
__device__ __forceinline__ Use use_of(const weft_args& a, const Term& term, int i) {
  const i64* const use = a.tables + get(term.condition_at) + i * kPairWords;
  return {(int)word(use + kPairNumber), word(use + kPairNegated) != 0};
}

/// Is it met by the keys of an interval of each row, which bounds say? Of a condition on rows alone that has all keys, or
/// none.
__device__ __forceinline__ bool is_bound(const Shared& s, Use use) {
  if (!kNarrows) return false;
  // fault(bounds_for_their_opposite) value: kOnRows | kBound
  const int bounds = use.negated ? kOnRows : kOnRows | kBound;
  return (get(s.conditions[use.condition].kind) & bounds) != 0;
}

/// May some row keep key y by the term's conditions? Exact where its rows are one run.
__device__ __forceinline__ bool may_hold(const weft_args& a, Shared& s, const Tile& t, const Term& term, int y) {
#pragma unroll 1
  for (int i = 0; i < get(term.conditions); ++i) {
    // fault(negation_dropped_by_the_filter) value: Use{right.condition, false}
    const Use use = use_of(a, term, i);
    const Condition& c = s.conditions[use.condition];
    const int kind = get(c.kind), runs = get(c.runs);
    if (is_bound(s, use)) continue;
    bool any = runs == 0;
    // fault(only_the_last_run_is_asked) value: max(runs - 1, 0)
#pragma unroll 1
    for (int r = 0; r < runs && !any; ++r) any = holds(a, t, use.condition, get(c.row[r]), y) != use.negated;
    if (!any) return false;
    // fault(interval_for_its_opposite) instead: if (runs > 0 || (kind & kInterval) == 0) continue;
    if (runs > 0 || use.negated || (kind & kInterval) == 0) continue;
    const i64 key = key_of(a, t, use.condition, y);
    // fault(end_of_an_interval_one_too_near) also: if (key + 1 >= get(c.hi)) return false;
    // fault(begin_of_an_interval_one_too_far) also: if (key <= get(c.lo)) return false;
    if (key < get(c.lo) || key >= get(c.hi)) return false;
  }
  return true;
}

/// How a condition of a term is asked: not at all, as bounds say it; of the key where all rows agree; by the run that a row
/// lies in; by the key's value; or of the pair.
enum Asked { kByBounds, kByKey, kByRun, kByValue, kByPair };

/// A term's conditions one behind the other: so many stand in the bits of a row, and one is by value.
constexpr int kSlots = 32 / kMostRuns;
struct Asking {
  int slots;
  bool value;
};
__device__ __forceinline__ Asked how_asked(const Shared& s, Use use, Asking& so_far) {
  const Condition& c = s.conditions[use.condition];
  if (is_bound(s, use)) return kByBounds;
  const int kind = get(c.kind), runs = get(c.runs);
  // fault(filter_accepted_for_rows_that_disagree) instead: if (runs >= 1) return kByKey;
  if (runs == 1) return kByKey;
  if (runs > 1 && so_far.slots < kSlots) {
    // fault(two_conditions_in_the_same_bits) instead: so_far.slots = 1;
    ++so_far.slots;
    return kByRun;
  }
  if (kByValues && (kind & kSmall) != 0 && !so_far.value) {
    so_far.value = true;
    return kByValue;
  }
  return kByPair;
}

/// Which run a row at position x lies in: they ascend.
__device__ __forceinline__ int run_of(const Condition& c, int x) {
  int run = -1;
  // fault(row_of_the_run_before) instead: for (int r = 0; r < get(c.runs); ++r) run += get(c.row[r]) < x ? 1 : 0;
#pragma unroll 1
  for (int r = 0; r < get(c.runs); ++r) run += get(c.row[r]) <= x ? 1 : 0;
  return run;
}

/// … and what the row at position x keeps.
__device__ __forceinline__ void narrow_reach(const weft_args& a, Shared& s, const Tile& t, const Term& term,
                                             const i64* words, int x, Reach& keys) {
#pragma unroll 1
  for (int i = 0; kNarrows && i < (int)word(words + kPairCount); ++i) {
    const Use use = use_of(a, term, i);
    if (!is_bound(s, use)) continue;
    const Condition& c = s.conditions[use.condition];
    if (get(c.kind) & kOnRows) {
      // fault(rows_that_fail_keep_all) leaves this out
      if (holds(a, t, use.condition, x, 0) == use.negated) keys.hi = keys.lo;
      continue;
    }
    if (!kSpans) continue;
    const int2 of_run = get(c.keys[run_of(c, x)]);
    // fault(rows_that_begin_with_the_tile) leaves this out
    keys.lo = max(keys.lo, of_run.x);
    // fault(rows_that_end_with_the_tile) leaves this out
    keys.hi = min(keys.hi, of_run.y);
  }
}

__device__ __forceinline__ SaidByRow ask_row(const weft_args& a, Shared& s, const Tile& t, const Term& term, int x) {
  SaidByRow said = {0, -kLargest - 1, kLargest};
  Asking asking = {};
#pragma unroll 1
  for (int i = 0; i < get(term.conditions); ++i) {
    const Use use = use_of(a, term, i);
    const Condition& c = s.conditions[use.condition];
    const Asked asked = how_asked(s, use, asking);
    if (asked == kByRun) said.runs |= 1u << (kMostRuns * (asking.slots - 1) + run_of(c, x));
    if (asked == kByValue) {
      const i64 lo = max(lo_of(a, t, use.condition, x), -(i64)kLargest - 1);
      const i64 hi = min(hi_of(a, t, use.condition, x), (i64)kLargest + 1);
      said.least = lo < hi ? (int)lo : 1;
      said.most = lo < hi ? (int)(hi - 1) : 0;
    }
  }
  return said;
}

/// `hit` stays where some row may keep key y.
__device__ __forceinline__ SaidOfKey ask_key(const weft_args& a, Shared& s, const Tile& t, const Term& term, int y,
                                             bool& hit) {
  SaidOfKey said = {0, 0};
  Asking asking = {};
#pragma unroll 1
  for (int i = 0; hit && i < get(term.conditions); ++i) {
    const Use use = use_of(a, term, i);
    const Condition& c = s.conditions[use.condition];
    const Asked asked = how_asked(s, use, asking);
    if (asked == kByValue) said.value = (int)key_of(a, t, use.condition, y);
    if (asked != kByKey && asked != kByRun) continue;
    const int runs = get(c.runs);
    unsigned fails = 0;
#pragma unroll 1
    for (int r = 0; r < runs; ++r)
      // fault(negation_dropped_by_the_runs) instead:
      //   fails |= (holds(a, t, use.condition, get(c.row[r]), y) ? 0u : 1u) << r;
      fails |= (holds(a, t, use.condition, get(c.row[r]), y) == use.negated ? 1u : 0u) << r;
    hit = fails != (1u << runs) - 1;
    if (asked == kByRun) said.fails |= fails << (kMostRuns * (asking.slots - 1));
  }
  return said;
}

/// What a term's conditions leave open, which is asked of the pair.
__device__ __forceinline__ bool holds_pair(const weft_args& a, Shared& s, const Tile& t, const Term& term, int q,
                                           int k) {
  Asking asking = {};
#pragma unroll 1
  for (int i = 0; i < get(term.conditions); ++i) {
    const Use use = use_of(a, term, i);
    const bool open = how_asked(s, use, asking) == kByPair;
    // fault(negation_dropped_for_pairs) instead: if (open && !holds(a, t, use.condition, q, k)) return false;
    if (open && holds(a, t, use.condition, q, k) == use.negated) return false;
  }
  return true;
}

/// Narrows what all rows of a tile may keep, and what each must, by a condition that is a bound.
__device__ __forceinline__ void narrow_span(const Condition& c, KeySpan& span) {
  KeySpan of_runs = {kLargest, -kLargest, kLargest, -kLargest};
#pragma unroll 1
  for (int r = 0; r < get(c.runs); ++r) {
    const int2 keys = get(c.keys[r]);
    // fault(the_first_run_bounds_the_tile) also: if (r > 0) break;
    if (keys.x < keys.y) of_runs.may_lo = min(of_runs.may_lo, keys.x), of_runs.may_hi = max(of_runs.may_hi, keys.y);
    of_runs.must_lo = max(of_runs.must_lo, keys.x);
    of_runs.must_hi = min(of_runs.must_hi, keys.y);
  }
  span.may_lo = max(span.may_lo, of_runs.may_lo);
  span.may_hi = min(span.may_hi, of_runs.may_hi);
  span.must_lo = max(span.must_lo, of_runs.must_lo);
  // fault(what_some_runs_keep_all_must) value: min(span.must_hi, of_runs.may_hi)
  span.must_hi = min(span.must_hi, of_runs.must_hi);
}

/// What the tile's rows say to a term's conditions together. Those that are bounds narrow `span`; a term without others has
/// none to ask.
__device__ __forceinline__ Met meet_conditions(const weft_args& a, Shared& s, Term& term, KeySpan& span) {
  Met met = {false, true, kGoesByUnits | kRowsAgree, -1};
  Asking asking = {};
  bool asks = !kNarrows;
#pragma unroll 1
  for (int i = 0; i < get(term.conditions); ++i) {
    const Use use = use_of(a, term, i);
    const Condition& c = s.conditions[use.condition];
    const int kind = get(c.kind), runs = get(c.runs);
    const Asked asked = how_asked(s, use, asking);
    if (kind & kOnRows) {
      // fault(rows_that_meet_are_overlooked) instead: met.none |= (kind & (use.negated ? kSomeMeet : kSomeFail)) != 0;
      met.none |= (kind & (use.negated ? kSomeFail : kSomeMeet)) == 0;
      // fault(rows_that_fail_are_overlooked) leaves this out
      met.all &= (kind & (use.negated ? kSomeMeet : kSomeFail)) == 0;
    }
    if (asked == kByBounds) {
      if (kSpans && (kind & kOnRows) == 0) narrow_span(c, span);
      continue;
    }
    asks = true;
    // fault(zone_full_for_rows_that_disagree) instead: met.all &= runs >= 1;
    met.all &= runs == 1;
    // fault(sets_of_rows_that_disagree) leaves this out
    if (runs != 1) met.open &= ~kRowsAgree;
    // fault(second_condition_on_values_overlooked) leaves this out
    if (asked == kByPair) met.open |= kAsksPairs;
    // fault(negation_dropped_by_the_values) leaves this out
    if (asked == kByValue && use.negated) met.open |= kValueNegated;
    if ((kind & kByUnits) == 0) met.open &= ~kGoesByUnits;
    const bool lags = runs == 1 && !use.negated && modulus_of(use.condition) > 1;
    if (lags && met.lag < 0) met.lag = use.condition;
  }
  if (!asks) put(term.conditions, 0);
  return met;
}
