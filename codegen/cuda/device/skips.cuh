#pragma once

#include "codegen/cuda/device/schedule.cuh"

// Passing over keys that no row keeps: without it every key of a zone would be tried, for few that are kept. A thread asks
// of a block of kSummaryBlock keys. What it is told is a bit for each unit of them: kUnit keys, of which every condition
// that is asked of many keys at once says the same.

constexpr int kUnit = kSummaryBlock / kUnits;
constexpr unsigned kAllUnits = (1u << kUnits) - 1;  // of a block

__device__ __forceinline__ int in_unit(int y) { return y & (kUnit - 1); }
/// The stretch of kSize keys, a power of two, that a key lies in.
template <int kSize>
__device__ __forceinline__ int stretch_of_key(int y) {
  return (y - (y & (kSize - 1))) / kSize;
}
__device__ __forceinline__ int unit_of_key(int y) { return stretch_of_key<kUnit>(y); }
__device__ __forceinline__ int block_of_key(int y) { return stretch_of_key<kSummaryBlock>(y); }

/// The units of this block of keys, or where `wide`, of as many blocks, of which some row may keep a key. By number; texts
/// define it at their end.
__device__ __forceinline__ unsigned may_meet(const weft_args& a, Shared& s, const Tile& t, Use use, int block, bool wide);

/// Of a condition that says the same of `same` keys at a time.
__device__ __forceinline__ unsigned units_may_meet(const weft_args& a, Shared& s, const Tile& t, Use use, int same,
                                                   int block) {
  const Condition& c = s.conditions[use.condition];
  const int runs = get(c.runs), begin = block * kSummaryBlock;
  const int end = (int)min((i64)begin + kSummaryBlock, (i64)t.key_end);
  if (runs == 0) return kAllUnits;
  unsigned units = 0;
#pragma unroll 1
  for (int y = begin; y < end; y += same) {
    // fault(one_key_asked_for_its_block) also: if (y > begin) break;
    bool any = false;
#pragma unroll 1
    for (int r = 0; r < runs && !any; ++r) {
      // fault(one_row_asked_for_its_tile) also: if (r > 0) break;
      any = holds(a, t, use.condition, get(c.row[r]), max(y, t.key_begin)) != use.negated;
    }
    // fault(units_of_their_neighbours) value: (units << 1 | units >> 1) & kAllUnits
    units = any ? units | ((1u << same / kUnit) - 1) << (y - begin) / kUnit : units;
  }
  return units;
}

/// The units of this block of which some term may hit a key. Of a zone in which every key counts only its own terms are
/// asked.
__device__ __forceinline__ unsigned units_may_count(const weft_args& a, Shared& s, const Zone& zone, int block, bool wide) {
  const Tile t = tile_of(s);
  const int terms = (int)word(get(s.pass) + kTerms);
  const int size = wide ? kSummaryBlock * kSummaryBlock : kSummaryBlock;
  const bool own = (zone.kind & kEvery) != 0;
  if (own && (i64)block * size >= zone.end) return 0;
  const i64 begin = own ? zone.begin : (i64)block * size, end = own ? begin + 1 : begin + size;
  unsigned units = 0;
#pragma unroll 1
  for (int i = 0; i < terms && units != kAllUnits; ++i) {
    const Term& term = terms_of(s)[i];
    if (!reaches(get(term.keys), begin, end)) continue;
    unsigned of_term = kAllUnits;
#pragma unroll 1
    for (int j = 0; j < get(term.conditions) && of_term != 0; ++j) {
      const Use use = use_of(a, term, j);
      // fault(blocks_asked_of_bounds) value: of_term & may_meet(a, s, t, use, block, wide)
      of_term = is_bound(s, use) ? of_term : of_term & may_meet(a, s, t, use, block, wide);
    }
    units |= of_term;
  }
  return units;
}

/// Where a tile looks lists up (next_listed.cuh): the first unit from the zone's begin on that they do not rule out.
__device__ __forceinline__ int next_unit_of(const weft_args& a, Shared& s, const Zone& zone);

constexpr int kToldUnits = kThreads * kUnits;

/// Behind a barrier: the number of the first unit from `from` on whose bit is set; kToldUnits where none is.
__device__ __forceinline__ int first_set(Shared& s, int from) {
  int w = from / 32;
  unsigned units = get(s.may[w]) & ~0u << from % 32;
#pragma unroll 1
  while (units == 0 && ++w < kToldUnits / 32) units = get(s.may[w]);
  return units != 0 ? 32 * w + __ffs((int)units) - 1 : kToldUnits;
}

/// Every thread says something of a block of keys.
__device__ __forceinline__ void tell_all(Shared& s, unsigned units) {
  __syncthreads();
  const int first = (int)threadIdx.x * kUnits;
  const unsigned word = over_lanes<32 / kUnits>(units << first % 32, [](unsigned x, unsigned y) { return x | y; });
  if (first % 32 == 0) put(s.may[first / 32], word);
  __syncthreads();
}

__device__ __forceinline__ void move_to(Zone& zone, i64 key) {
  i64 begin = max(key, (i64)zone.begin);
  if (kHasStreams) begin = zone.begin + (begin - zone.begin + zone.step - 1) / zone.step * zone.step;
  zone.begin = begin < zone.end ? (int)begin : zone.end;
}

/// Moves a zone on to keys of which some row may keep one. What is found out of kThreads blocks serves all keys of
/// them, of this zone and the next ones.
__device__ __forceinline__ void pass_over(const weft_args& a, Shared& s, Zone& zone, int& known) {
#pragma unroll 1
  while (zone.step > 0 && zone.begin < zone.end) {
    int block = block_of_key(zone.begin);
    if ((unsigned)(block - known) < kThreads) {
      const int unit = unit_of_key(zone.begin) - known * kUnits, first = first_set(s, unit);
      if (first == unit) return;
      // fault(block_behind_the_one_to_go_to) instead: move_to(zone, (i64)(known * kUnits + first + 1) * kUnit);
      move_to(zone, (i64)(known * kUnits + first) * kUnit);
      // fault(steps_over_units_end_in_one_that_is_set) value: true
      const bool inside = !kHasStreams || zone.step <= kUnit;  // else a step may lead past the unit
      if (first < kToldUnits && inside) return;
      continue;
    }
    if (kFollowsLists && zone.end > (i64)(block + kThreads) * kSummaryBlock) {
      move_to(zone, (i64)next_unit_of(a, s, zone) * kUnit);
      if (zone.begin >= zone.end) return;
      block = block_of_key(zone.begin);
    }
    if (kSpans) {
      constexpr int kWide = kSummaryBlock * kSummaryBlock;
      const int wide = stretch_of_key<kWide>(zone.begin);
      tell_all(s, units_may_count(a, s, zone, wide + (int)threadIdx.x, true));
      known = kUnknown;
      const int first = first_set(s, 0) / kUnits;
      move_to(zone, (i64)(wide + first) * kWide);
      if (first == kThreads || zone.begin >= zone.end) continue;
      block = block_of_key(zone.begin);
    }
    tell_all(s, units_may_count(a, s, zone, block + (int)threadIdx.x, false));
    known = block;
  }
}

/// The keys of a zone, from its begin on, that lie in units whose bits are set.
struct SetKeys {
  unsigned units;  // bits, from that of the first key on
  int first, step;

  __device__ __forceinline__ int operator()(int number) const {
    if (kHasStreams && step > 1) return first + number * step;
    const int place = number + in_unit(first);
    unsigned left = units;
#pragma unroll 1
    for (int before = place / kUnit; before > 0; --before) left &= left - 1;
    return first - in_unit(first) + (__ffs((int)left) - 1) * kUnit + in_unit(place);
  }
};

/// … as far as one word of bits tells, behind pass_over(): returns how many they are. In steps those of units that follow
/// each other.
__device__ __forceinline__ int find_set_keys(Shared& s, const Zone& zone, int known, SetKeys& keys) {
  const int begin = zone.begin - in_unit(zone.begin), unit = unit_of_key(zone.begin) - known * kUnits;
  unsigned units = get(s.may[unit / 32]) >> unit % 32;
  const int inside = min((zone.end - begin - 1) / kUnit + 1, 32);
  units &= ~0u >> (32 - inside);
  // fault(block_behind_those_that_are_set) value: (__ffs((int)~units) - 1 & 31) + 1
  const int following = ~units != 0 ? __ffs((int)~units) - 1 : 32;
  const bool in_steps = kHasStreams && zone.step > 1;
  const int end = begin + (in_steps ? following : 32 - __clz((int)units)) * kUnit;
  keys = {units, zone.begin, zone.step};
  if (in_steps) return quotient((unsigned)(min(end, zone.end) - zone.begin - 1), zone.step) + 1;
  // fault(units_behind_the_end_of_a_zone) value: 0
  const int behind = max(end - zone.end, 0);
  return __popc(units) * kUnit - in_unit(zone.begin) - behind;
}
