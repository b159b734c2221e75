#pragma once

#include "codegen/cuda/device/summaries.cuh"

// From zones to the list of keys that blocks are made of, a ring: every thread tries some, and those that some branch
// keeps close ranks.

/// Does key y meet the congruences of a term, its stream's and its filters'?
__device__ __forceinline__ bool hits(const weft_args& a, const Term& term, int y) {
  if (!kHasStreams && !kHasFilters) return true;
  int segment = get(term.segment), rate = get(term.rate), residue = get(term.residue);
  bool wanted = true;
  const i64* filter = a.tables + get(term.filter_at);
#pragma unroll 1
  for (int left = kHasFilters ? get(term.filters) : 0;; --left, filter += kFilterWords) {
    const int in_segment = segment > 0 ? remainder_of_key(y, segment) : y;
    if ((remainder_of_key(in_segment, rate) == residue) != wanted) return false;
    if (left == 0) return true;
    const i64 next_segment = word(filter + kFilterSegment);
    segment = next_segment > kLargest ? 0 : (int)next_segment;
    rate = (int)min(word(filter + kFilterRate), (i64)kLargest);
    residue = (int)min(word(filter + kFilterResidue), (i64)kLargest);
    wanted = word(filter + kFilterNegated) == 0;
  }
}

/// How many branches keep key y of a full zone; of a partial one, how many may.
__device__ __forceinline__ int weight_of(const weft_args& a, Shared& s, const Tile& t, int terms, int y) {
  int weight = 0, counted = -1;
#pragma unroll 1
  for (int i = 0; i < terms; ++i) {
    const Term& term = terms_of(s)[i];
    const int branch = get(term.branch);
    if (branch == counted || y < get(term.keys.may_lo) || y >= get(term.keys.may_hi)) continue;
    if (!hits(a, term, y)) continue;
    if (kConditions > 0 && !may_hold(a, s, t, term, y)) continue;
    counted = branch;
    ++weight;
  }
  return weight;
}

struct KeyStream {
  int from;   // place of the next block, a multiple of kKeys
  int ready;  // keys from there on
};

/// Key y goes to a place of the list, counted from its beginning, which may lie one turn ahead.
__device__ __forceinline__ void put_key(const weft_args& a, Shared& s, int place, int y, int weight) {
  place -= place >= kKeyList ? kKeyList : 0;
  put(s.key[place], y);
  if (kCounts) put(s.key_weight[place], (float)weight);
  if (kListsPages) {
    const int page = divided(y, a.of_page);
    put(s.page[place], page_number(a, tile_of(s).b, page));
    put(s.in_page[place], y - page * (int)a.page_size);
  }
}

/// How many keys, `step` apart, lie in so many positions from the first on.
__device__ __forceinline__ int keys_in(int positions, int step) {
  return kHasStreams ? quotient((unsigned)positions + (unsigned)step - 1, step) : positions;
}

/// The run with `keys` more of the zone.
__device__ __forceinline__ Run longer(const Run& run, const Zone& zone, int keys) {
  // fault(zones_that_do_not_follow) value: true
  const bool goes_on = zone.step == run.step && zone.begin == run.next;
  // fault(steps_overlooked) instead: return {goes_on ? run.keys + keys : keys, 1, run.next};
  return {goes_on ? run.keys + keys : keys, zone.step, run.next};
}

/// Moves on behind the keys before `behind`. A zone may end between two of its keys, and another begin there.
__device__ __forceinline__ void move_behind(Zone& zone, Run& run, i64 behind) {
  zone.begin = zone.step > 0 && behind < zone.end ? (int)behind : zone.end;
  // fault(next_key_of_a_zone_that_ended) value: zone.begin
  run.next = zone.begin < zone.end ? zone.begin : -1;
}

/// Do blocks of the zone's keys wait for conditions that may pass over them?
__device__ __forceinline__ bool is_passed_over(const Zone& zone) {
  return kPassesOver && (zone.kind & kUnasked) == 0;
}

/// Appends the next keys of a zone in which every one counts, as far as conditions do not pass over it.
__device__ __forceinline__ void append_run(const weft_args& a, Shared& s, Zone& zone, KeyStream& stream, Run& run,
                                           int known) {
  const bool passes = is_passed_over(zone);
  SetKeys set = {};
  const int of_zone = passes ? find_set_keys(s, zone, known, set) : keys_in(zone.end - zone.begin, zone.step);
  const int all = min(of_zone, kTries * kThreads), at = stream.from + stream.ready;
  const auto key = [&](int i) { return passes ? set(i) : zone.begin + i * zone.step; };
  const int last = key(all - 1);
  run = longer(run, zone, all);
  // fault(keys_passed_over_overlooked) leaves this out
  if (passes && last != zone.begin + (all - 1) * zone.step) run.keys = 0;
#pragma unroll 1
  for (int i = (int)thread_anew(); i < all; i += kThreads) put_key(a, s, at + i, key(i), 1);
  stream.ready += all;
  move_behind(zone, run, (i64)last + zone.step);
}

/// Tries the zone's next keys, kTries per thread, and appends those that count.
__device__ __forceinline__ void append_keys(const weft_args& a, Shared& s, Zone& zone, KeyStream& stream, Run& run,
                                            int& known) {
  const Tile t = tile_of(s);
  const int terms = (int)word(get(s.pass) + kTerms);
  if (is_passed_over(zone)) pass_over(a, s, zone, known);
  if (zone.kind & kEvery) {
    if (zone.begin < zone.end) append_run(a, s, zone, stream, run, known);
    return;
  }
  const unsigned thread = thread_anew();
  const int warp = thread / 32, lane = thread % 32;
  const i64 first = zone.begin + (i64)(warp * (32 * kTries) + lane) * zone.step;
  unsigned weights = 0;  // a byte each
  int found = 0;
  bool missed = false;  // does a key not count?
#pragma unroll 1
  for (int i = 0; i < kTries; ++i) {
    const i64 y = first + (i64)(32 * i) * zone.step;
    const bool inside = zone.step > 0 && y < zone.end;
    const int weight = inside ? weight_of(a, s, t, terms, (int)y) : 0;
    missed = missed || (inside && weight == 0);
    weights |= (unsigned)weight << (8 * i);
    found += __popc(__ballot_sync(0xFFFFFFFFu, weight > 0));
  }
  constexpr int kMissed = 1 << 16;
  const bool any_missed = __any_sync(0xFFFFFFFFu, missed);
  if (lane == 0) put(s.counts[warp], any_missed ? found | kMissed : found);
  __syncthreads();
  int at = stream.from + stream.ready;
  int all = 0, gaps = 0;
#pragma unroll 1
  for (int w = 0; w < kWarps; ++w) {
    const int count = get(s.counts[w]);
    if (w < warp) at += count & (kMissed - 1);
    all += count & (kMissed - 1);
    // fault(keys_left_out_by_one_warp_overlooked) instead: gaps = count & kMissed;
    gaps |= count & kMissed;
  }
  stream.ready += all;
  run = longer(run, zone, all);
  // fault(keys_left_out_overlooked) leaves this out
  if (gaps != 0) run.keys = 0;
#pragma unroll 1
  for (int i = 0; i < kTries; ++i) {
    const int weight = weights >> (8 * i) & 255;
    const unsigned kept = __ballot_sync(0xFFFFFFFFu, weight > 0);
    const int place = at + __popc(kept & ((1u << lane) - 1));
    at += __popc(kept);
    // fault(barrier_of_few) also: if (weight > 0) __syncthreads();
    if (weight > 0) put_key(a, s, place, (int)(first + (i64)(32 * i) * zone.step), weight);
  }
  // fault(barrier_after_keys) leaves this out
  __syncthreads();  // before they count anew
  move_behind(zone, run, zone.begin + (i64)(kTries * kThreads) * zone.step);
}

/// Before a barrier.
__device__ __forceinline__ void set_walk(Shared& s, const Zone& zone, int next, const Run& run, int known) {
  if (threadIdx.x != 0) return;
  put(s.walk.run.keys, run.keys);
  put(s.walk.run.step, run.step);
  put(s.walk.run.next, run.next);
  put(s.walk.zone, make_int4(zone.begin, zone.end, zone.step, zone.kind));
  put(s.walk.next, next);
  put(s.walk.known, known);
}

/// How many keys the next block has, 0 where none are left. Keys of full zones that fill no block stay on the list, and go
/// with the partial ones. Asked anew where it is needed: the number in a register would be one too many.
__device__ __forceinline__ int keys_of_next(const KeyStream& stream, bool partial) {
  const int ready = kept(stream.ready);
  return !partial && ready < kKeys ? 0 : min(ready, kKeys);
}

/// Before a barrier, once for each kind of zones: all of them lie ahead.
__device__ __forceinline__ void begin_walk(Shared& s) {
  set_walk(s, {0, 0, 0, kEmpty}, 0, {}, kUnknown);
  // fault(rows_of_the_softmax_before) leaves this out
  if (threadIdx.x == 0) put(s.met_term, -1);
}

/// Makes up the next block from the zones of one kind.
__device__ __forceinline__ void next_block(const weft_args& a, Shared& s, int kind, KeyStream& stream) {
  if (stream.ready < kKeys) {
    const int4 left = get(s.walk.zone);
    Zone zone = {left.x, left.y, left.z, left.w};
    int number = get(s.walk.next), known = get(s.walk.known);
    Run run = {get(s.walk.run.keys), get(s.walk.run.step), get(s.walk.run.next)};
#pragma unroll 1
    while (stream.ready < kKeys) {
      if (zone.begin < zone.end) {
        append_keys(a, s, zone, stream, run, known);
        continue;
      }
      if (number == get(s.walk.zones)) break;
      const Zone next = get(lists_of(a, s).zone[number]);
      ++number;
      if ((next.kind & kKinds) != kind) continue;
      // fault(blocks_known_of_other_terms) leaves this out
      if ((zone.kind | next.kind) & kEvery) known = kUnknown;  // that was asked of other terms
      zone = next;
    }
    __syncthreads();
    set_walk(s, zone, number, run, known);
  }
}

/// How far apart the keys of the whole block at this place are, if they all are as far; else 0. Behind a barrier behind
/// next_block(); the block and what the list holds behind it are `listed` keys, which ascend unless `mixed`.
__device__ __forceinline__ int step_of(Shared& s, int from, int listed, bool mixed) {
  // fault(fewer_keys_than_the_block) instead: if (get(s.walk.run.keys) > 0) return get(s.walk.run.step);
  if (get(s.walk.run.keys) >= listed) return get(s.walk.run.step);
  // fault(keys_with_gaps_taken_for_a_run) instead: return mixed ? 0 : 1;
  return !mixed && get(s.key[from + kKeys - 1]) - get(s.key[from]) == kKeys - 1 ? 1 : 0;
}

/// Where the block stands behind which the stream is.
__device__ __forceinline__ int place_before(const KeyStream& stream) {
  return (stream.from == 0 ? kKeyList : stream.from) - kKeys;
}

__device__ __forceinline__ void pass_block(KeyStream& stream) {
  stream.from = stream.from + kKeys == kKeyList ? 0 : stream.from + kKeys;
  stream.ready = max(stream.ready - kKeys, 0);
}
