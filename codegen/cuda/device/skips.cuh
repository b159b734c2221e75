#pragma once

#include "codegen/cuda/device/schedule.cuh"

// Passing over blocks of keys that no row keeps: without it every key of a zone would be tried, for few that are kept.

__device__ __forceinline__ int block_of_key(int y) { return multiple_below_key(y, kSummaryBlock) / kSummaryBlock; }

/// May some row keep a key of this block of kSummaryBlock keys, or where `wide`, of as many blocks? By number; texts
/// define it at their end.
__device__ __forceinline__ bool may_meet(const weft_args& a, Shared& s, const Tile& t, Use use, int block, bool wide);

/// Of a condition that says the same of all keys of a unit.
__device__ __forceinline__ bool units_may_meet(const weft_args& a, Shared& s, const Tile& t, Use use, int unit,
                                               int block) {
  const Condition& c = s.conditions[use.condition];
  const int runs = get(c.runs), end = (int)min((i64)(block + 1) * kSummaryBlock, (i64)t.key_end);
  if (runs == 0) return true;
#pragma unroll 1
  for (int y = block * kSummaryBlock; y < end; y += unit) {
    // fault(one_key_asked_for_its_block) also: if (y > block * kSummaryBlock) break;
#pragma unroll 1
    for (int r = 0; r < runs; ++r) {
      // fault(one_row_asked_for_its_tile) also: if (r > 0) break;
      if (holds(a, t, use.condition, get(c.row[r]), y) != use.negated) return true;
    }
  }
  return false;
}

/// May some term hit a key of this block? Of a zone in which every key counts only its own terms are asked.
__device__ __forceinline__ bool block_may_count(const weft_args& a, Shared& s, const Tile& t, int terms,
                                                const Zone& zone, int block, bool wide) {
  const int size = wide ? kSummaryBlock * kSummaryBlock : kSummaryBlock;
  const bool own = (zone.kind & kEvery) != 0;
  if (own && (i64)block * size >= zone.end) return false;
  const i64 begin = own ? zone.begin : (i64)block * size, end = own ? begin + 1 : begin + size;
#pragma unroll 1
  for (int i = 0; i < terms; ++i) {
    const Term& term = terms_of(s)[i];
    if (!reaches(get(term.keys), begin, end)) continue;
    bool may = true;
#pragma unroll 1
    for (int j = 0; j < get(term.conditions) && may; ++j) {
      const Use use = use_of(a, term, j);
      // fault(blocks_asked_of_bounds) value: may_meet(a, s, t, use, block, wide)
      may = is_bound(s, use) || may_meet(a, s, t, use, block, wide);
    }
    if (may) return true;
  }
  return false;
}

/// Behind a barrier: the number of the first thread from `from` on whose bit in `may` is set; kThreads where none is.
__device__ __forceinline__ int first_set(Shared& s, int from) {
  int w = from / 32;
  unsigned lanes = get(s.may[w]) & ~0u << from % 32;
#pragma unroll 1
  while (lanes == 0 && ++w < kWarps) lanes = get(s.may[w]);
  return lanes != 0 ? 32 * w + __ffs((int)lanes) - 1 : kThreads;
}

/// Every thread says something of a block of keys.
__device__ __forceinline__ void tell_all(Shared& s, bool may) {
  __syncthreads();
  const unsigned lanes = __ballot_sync(0xFFFFFFFFu, may);
  if (threadIdx.x % 32 == 0) put(s.may[threadIdx.x / 32], lanes);
  __syncthreads();
}

/// Where the blocks end that lie one behind the other from that of key y on and whose bits are set.
__device__ __forceinline__ i64 end_of_set(Shared& s, int y, int known) {
  const int block = block_of_key(y), thread = block - known;
  const unsigned unset = ~(get(s.may[thread / 32]) >> thread % 32);
  // fault(block_behind_those_that_are_set) instead:
  //   return (i64)(block + 1 + __clz((int)__brev(unset))) * kSummaryBlock;
  return (i64)(block + __clz((int)__brev(unset))) * kSummaryBlock;
}

__device__ __forceinline__ void move_to(Zone& zone, i64 key) {
  i64 begin = max(key, (i64)zone.begin);
  if (kHasStreams) begin = zone.begin + (begin - zone.begin + zone.step - 1) / zone.step * zone.step;
  zone.begin = begin < zone.end ? (int)begin : zone.end;
}

/// Moves a zone on to keys of which some row may keep one. What is found out of kThreads blocks serves all keys of
/// them, of this zone and the next ones.
__device__ __forceinline__ void pass_over(const weft_args& a, Shared& s, const Tile& t, int terms, Zone& zone,
                                          int& known) {
#pragma unroll 1
  while (zone.step > 0 && zone.begin < zone.end) {
    int block = block_of_key(zone.begin);
    if (known >= 0 && block >= known && block < known + kThreads) {
      const int first = first_set(s, block - known);
      // fault(block_behind_the_one_to_go_to) instead: move_to(zone, (i64)(known + first + 1) * kSummaryBlock);
      move_to(zone, (i64)(known + first) * kSummaryBlock);
      if (first < kThreads) return;
      continue;
    }
    if (kSpans) {
      constexpr int kWide = kSummaryBlock * kSummaryBlock;
      const int wide = multiple_below_key(zone.begin, kWide) / kWide;
      tell_all(s, block_may_count(a, s, t, terms, zone, wide + (int)threadIdx.x, true));
      known = -1;
      const int first = first_set(s, 0);
      move_to(zone, (i64)(wide + first) * kWide);
      if (first == kThreads || zone.begin >= zone.end) continue;
      block = block_of_key(zone.begin);
    }
    tell_all(s, block_may_count(a, s, t, terms, zone, block + (int)threadIdx.x, false));
    known = block;
  }
}
