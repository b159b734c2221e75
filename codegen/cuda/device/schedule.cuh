#pragma once

#include "codegen/cuda/device/conditions.cuh"

// Which keys a tile visits: see compiler/ir/schedule.h. Bounds never fall as rows grow, so the first and the last row
// of a tile tell what any and what every row keeps.

/// A closed form at position x.
__device__ __forceinline__ i64 value_of(const weft_args& a, const Shared& s, const Tile& t, const i64* bound, int x) {
  const i64 add = word(bound + kBoundAdd);
  const int kind = (int)word(bound + kBoundKind);
  const i64 of = word(bound + kBoundA);
  if (kind == kBoundRow) return x + add;
  if (kHasSegments && kind == kBoundSegment) return floor_to(x, of) + add;
  if (kInputs > 0 && kind == kBoundInput) return get(s.inputs[of]) + add;
  if (kHasForms && kind == kBoundForm) return form_of(a, t, (int)of, x) + add;
  if (kHasParts && kind == kBoundPart) return word(bound + kBoundB) * keys_of(a, t.b) / of + add;
  return add;
}

/// What bounds that are forms may fall by between rows is added, taken off or left, as `slack` is 1, -1 or 0.
/// The bounds of a term from below, from above, and those of its conditions on rows lie one behind the other: by number
/// `from` and those in steps behind it.
__device__ __forceinline__ Reach reach_of(const weft_args& a, const Shared& s, const Tile& t, const i64* term, int x,
                                          int slack, int from = 0, int step = 1) {
  const int lower = (int)word(term + kLoCount), upper = lower + (int)word(term + kHiCount);
  const int bounds = upper + (kHasRowConditions ? (int)word(term + kRowCount) : 0);
  const i64* bound = a.tables + word(term + kLoAt) + from * kBoundWords;
  int lo = t.key_begin, hi = t.key_end;
  unsigned fails = 0;
#pragma unroll 1
  for (int i = from; i < bounds; i += step, bound += step * kBoundWords) {
    i64 value = value_of(a, s, t, bound, x);
    if (kHasForms && word(bound + kBoundKind) == kBoundForm) value += slack * word(bound + kBoundB);
    const int v = clamp_to_int(value);
    if (i < lower) {
      lo = max(lo, v);
    } else if (!kHasRowConditions || i < upper) {
      hi = min(hi, v);
    } else if ((x < v) != (word(bound + kBoundBelow) != 0)) {
      fails |= 1u << (i - upper);
    }
  }
  return {lo, hi, fails};
}

/// Conditions on rows that a term wants met, and those that it wants missed.
struct Bits {
  u64 need, miss;
};
__device__ __forceinline__ Bits bits_of(const i64* term) {
  if (!kHasRowBits) return {0, 0};
  return {(u64)word(term + kNeed), (u64)word(term + kMiss)};
}

/// Fills one Term.
__device__ __forceinline__ void span_term(const weft_args& a, Shared& s, const Tile& t, const i64* term, Reach at_first,
                                          Reach at_last, Term& to) {
  const Bits bits = bits_of(term);
  put(to.conditions, (int)word(term + kPairCount));
  put(to.condition_at, (int)word(term + kPairAt));
  KeySpan span = {at_first.lo, at_last.lo, at_first.hi, at_last.hi};
  const Met met = meet_conditions(a, s, to, span);
  if (kConditions > 0) put(to.open, met.open);
  // A half-line of rows that holds neither end of the tile holds none of it; one that holds both holds all.
  const bool none =
      met.none || ((bits.need & ~t.any) | (bits.miss & t.every)) != 0 || (at_first.fails & at_last.fails) != 0;
  const bool all =
      met.all && ((bits.need & ~t.every) | (bits.miss & t.any)) == 0 && (at_first.fails | at_last.fails) == 0;
  i64 rate = word(term + kRate), segment = word(term + kSegment), residue = word(term + kResidue);
  if (rate == 1 && met.lag >= 0) {
    rate = modulus_of(met.lag);
    segment = 0;
    residue = get(s.conditions[met.lag].lo);
  }
  const bool live = !none && span.may_lo < span.may_hi && residue < kLargest;
  const bool must = live && all && span.must_lo < span.must_hi;
  if (!must) span.must_lo = span.must_hi = span.may_hi;
  put(to.keys, live ? span : KeySpan{kLargest, kLargest, kLargest, kLargest});
  put(to.whole, (int)word(term + kWhole));
  put(to.branch, (int)word(term + kBranch));
  put(to.segment, segment > kLargest ? 0 : (int)segment);  // no key lies in a second such segment
  put(to.rate, (int)min(rate, (i64)kLargest));
  put(to.residue, (int)residue);
  put(to.filters, (int)word(term + kFilterCount));
  put(to.filter_at, (int)word(term + kFilterAt));
}

/// Fills all terms of the pass: of each some lanes ask for a bound at the tile's first row, as many for one at the last.
__device__ __forceinline__ void span_terms(const weft_args& a, Shared& s, const Tile& t, const i64* pass,
                                           const Lists& lists, int terms) {
  constexpr int kLanes = 8, kAtOnce = 32 / (2 * kLanes);  // terms by a warp
  const int thread = (int)thread_of_tile(), lane = thread % (2 * kLanes);
  const bool at_last = lane >= kLanes;
#pragma unroll 1
  for (int first = thread / 32 * kAtOnce; first < terms; first += kWarps * kAtOnce) {
    const int number = first + thread % 32 / (2 * kLanes);
    const i64* const term = pass + kTermsAt + min(number, terms - 1) * kTermWords;
    const int x = at_last ? t.last : first_position_of_tile(s);
    Reach reach = reach_of(a, s, t, term, x, at_last ? 1 : -1, lane % kLanes, kLanes);
    reach.lo = most_of<kLanes>(reach.lo);
    reach.hi = least_of<kLanes>(reach.hi);
    reach.fails = over_lanes<kLanes>(reach.fails, [](unsigned x, unsigned y) { return x | y; });
    const Reach of_last = {__shfl_xor_sync(0xFFFFFFFFu, reach.lo, kLanes), __shfl_xor_sync(0xFFFFFFFFu, reach.hi, kLanes),
                           __shfl_xor_sync(0xFFFFFFFFu, reach.fails, kLanes)};
    if (lane == 0 && number < terms) span_term(a, s, t, term, reach, of_last, lists.term[number]);
  }
}

/// The term's first hit at or behind `from`, without filters, and the end of that hit's segment.
struct Hit {
  int at, segment_end;
};
__device__ __forceinline__ Hit first_hit(const Term& term, int from) {
  const int rate = term.rate, segment = term.segment, residue = term.residue;
  if (!kHasStreams || rate == 1) return {from, kLargest};
  const int base = segment > 0 ? multiple_below_key(from, segment) : 0;
  const int behind = remainder_of_key(from - base, rate);
  const i64 at = (i64)from + (residue >= behind ? residue - behind : residue - behind + rate);
  const i64 end = segment > 0 ? (i64)base + segment : kLargest;
  if (at < end) return {clamp_to_int(at), clamp_to_int(end)};
  return {clamp_to_int(end + residue), clamp_to_int(end)};
}

/// Of x >= 0 and any y.
__device__ __forceinline__ int gcd(int x, int y) {
  y = abs(y);
  if (x == 0) return y;
  // fault(step_of_one_term_for_all) instead: if (is_power_of_two(x)) return x;
  if (is_power_of_two(x)) return y == 0 ? x : min(x, y & -y);
#pragma unroll 1
  while (y != 0) {
    const int rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}

/// The zone between two cut points. A term that keeps all of it for every row makes its branch's other terms idle.
__device__ __forceinline__ Zone make_zone(Shared& s, int terms, int lo, int hi) {
  Zone zone = {hi, hi, 0, kEmpty};
  int branch = -1;
  bool full = true, covered = false, must = true;
  bool even = !kCounts;                 // do terms tell no two hits of a zone apart?
  bool asked = false;                   // does a term have conditions?
  bool steady = kCounts;                // does every block of keys have the numbers of branches of the one before?
  int period = 1, least = kLargest;     // of all terms
  int longest = 0, without = kLargest;  // steps: of all terms, and the least of those without a condition
  int number = -1, others = 0;          // of the first term, and how many more there are
#pragma unroll 1
  for (int i = 0; i < terms; ++i) {
    const Term term = terms_of(s)[i];  // at once, as each word would be waited for
    if (lo < term.keys.may_lo || hi > term.keys.may_hi) continue;
    if (term.branch != branch) {
      full = full && (covered || must);
      branch = term.branch;
      covered = false;
      must = true;
    }
    // fault(full_zone_too_wide) value: true
    const bool all_rows = lo >= term.keys.must_lo && hi <= term.keys.must_hi;
    covered = covered || (all_rows && term.whole);
    must = must && all_rows;
    const Hit hit = first_hit(term, lo);
    const bool plain = (!kHasFilters || term.filters == 0) && (kConditions == 0 || (term.open & kGoesByUnits) != 0);
    even = even && plain && hit.at < hi;
    asked = asked || term.conditions != 0;
    if (kHasSets) others += number < 0 ? 0 : 1, number = number < 0 ? i : number;
    if (hit.at >= hi) continue;
    longest = max(longest, term.rate);
    if (plain && term.conditions == 0) without = min(without, term.rate);
    if (zone.step == 0) zone.begin = hit.at;
    const bool crosses = hit.segment_end < hi;  // the next segments begin anew
    if (kCounts) {
      steady = steady && plain && !crosses && period < (1 << 15);
      const int rate = min(term.rate, 1 << 15);
      if (kHasStreams) period = quotient((unsigned)period, gcd(period, rate)) * rate;
      least = min(least, term.rate);
    }
    const i64 next = crosses ? (i64)hit.segment_end + term.residue - zone.begin : 0;
    const int apart[4] = {term.rate, hit.at - zone.begin, crosses ? term.segment : 0,
                          (int)max(min(next, (i64)kLargest), -(i64)kLargest)};
    if (!kHasStreams) zone.step = 1;
#pragma unroll 1
    for (int j = 0; kHasStreams && j < 4 && zone.step != 1; ++j)
      zone.step = gcd(zone.step, j == 0 ? apart[0] : j == 1 ? apart[1] : j == 2 ? apart[2] : apart[3]);
    zone.begin = min(zone.begin, hit.at);
  }
  if (zone.step == 0) return zone;
  zone.kind = full && (covered || must) ? kFull : kPartial;
  // The step divides those of all terms: what goes by the same steps is hit by them all.
  const bool of_one = !kCounts && without == zone.step;
  if ((even && longest == zone.step) || of_one) zone.kind |= !asked || of_one ? kEvery | kUnasked : kEvery;
  if (kHasSets && zone.step == 1 && (zone.kind & (kEvery | kUnasked)) == kEvery) {
    const bool agree = others == 0 && (get(terms_of(s)[number].open) & kRowsAgree) != 0;
    if (agree || (zone.kind & kFull)) zone.kind |= kOfSets | (agree ? (number + 1) * kOfTerm : 0);
  }
  if (!steady || asked || least != zone.step) return zone;
  // fault(counts_of_the_block_before) value: true
  const bool repeats = is_power_of_two(period) ? (kKeys * (unsigned)zone.step & (unsigned)(period - 1)) == 0
                                               : (i64)kKeys * zone.step % period == 0;
  if (repeats) zone.kind |= kUnasked;
  return zone;
}

/// By the first warp, which made them: leaves out zones without keys; returns how many are left.
__device__ __forceinline__ int close_ranks(Shared& s, const Lists& lists, int zones) {
  if (threadIdx.x < 32) {
    int left = 0;
#pragma unroll 1
    for (int i = 0; i < zones; i += 32) {
      const Zone zone = get(lists.zone[min(i + (int)threadIdx.x, zones - 1)]);
      const bool stays = i + (int)threadIdx.x < zones && zone.begin < zone.end;
      const unsigned all = __ballot_sync(0xFFFFFFFFu, stays);
      if (stays) put(lists.zone[left + __popc(all & ((1u << threadIdx.x) - 1))], zone);
      // fault(zones_over_the_first_ones) instead: left = __popc(all);
      left += __popc(all);
    }
    if (threadIdx.x == 0) put(s.walk.zones, left);
  }
  __syncthreads();
  return get(s.walk.zones);
}

/// Where spans of terms begin and end, in order; those of one term are.
__device__ __forceinline__ const int* sort_cuts(const Lists& lists, int terms) {
  if (terms == 1) return &lists.term[0].keys.may_lo;
#pragma unroll 1
  for (int i = threadIdx.x; i < 4 * terms; i += kThreads) {
    const int mine = get((&lists.term[i / 4].keys.may_lo)[i % 4]);
    const auto goes_before = [&](int cut, int number) { return (cut < mine) | ((cut == mine) & (number < i)); };
    int rank = 0;
#pragma unroll 1
    for (int j = 0; j < terms; ++j) {
      const KeySpan keys = get(lists.term[j].keys);
      rank += goes_before(keys.may_lo, 4 * j) + goes_before(keys.must_lo, 4 * j + 1) +
              goes_before(keys.must_hi, 4 * j + 2) + goes_before(keys.may_hi, 4 * j + 3);
    }
    put(lists.sorted_cut[rank], mine);
  }
  __syncthreads();
  return lists.sorted_cut;
}

/// Spans of every term of the pass, the sorted cut points and the zones between them; returns how many zones there are,
/// none where no row keeps any key.
__device__ __forceinline__ int make_zones(const weft_args& a, Shared& s, const Tile& t, const i64* pass) {
  const int terms = (int)word(pass + kTerms);
  // Its number from where the tile begins would wait until here in a register that texts of 128 columns do not have.
  if (thread_anew() == 0) put(s.pass, pass);
  const Lists lists = lists_of(a, s);
  span_terms(a, s, t, pass, lists, terms);
  __syncthreads();
  const int* const cuts = sort_cuts(lists, terms);
  const int zones = 4 * terms - 1;
  if (thread_anew() < 32) {
#pragma unroll 1
    for (int i = (int)thread_anew(); i < zones; i += 32) {
      const Zone zone = make_zone(s, terms, get(cuts[i]), get(cuts[i + 1]));
      put(lists.zone[i], zone);
    }
    __syncwarp();
  }
  return close_ranks(s, lists, zones);
}
