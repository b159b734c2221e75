#pragma once

#include "codegen/cuda/device/schedule.cuh"

// Passing over blocks of keys that no row keeps: without it every key of a zone would be tried, for few that are kept.

/// May some row keep a key of this block of kSummaryBlock keys, or where `wide`, of as many blocks? By number; texts
/// define it at their end.
__device__ __forceinline__ bool may_meet(const weft_args& a, Shared& s, const Tile& t, Use use, int block, bool wide);

/// Of a condition that says the same of all keys of a unit.
__device__ __forceinline__ bool units_may_meet(const weft_args& a, Shared& s, const Tile& t, Use use, int unit,
                                               int block) {
  const Condition& c = s.conditions[use.condition];
  const int runs = get(c.runs), end = (int)min((i64)(block + 1) * kSummaryBlock, a.n_k);
  if (runs == 0) return true;
#pragma unroll 1
  for (int y = block * kSummaryBlock; y < end; y += unit) {
#pragma unroll 1
    for (int r = 0; r < runs; ++r) {
      if (holds(a, t, use.condition, get(c.row[r]), y) != use.negated) return true;
    }
  }
  return false;
}

/// May some term hit a key of this block?
__device__ __forceinline__ bool block_may_count(const weft_args& a, Shared& s, const Tile& t, int terms, int block,
                                                bool wide) {
  const int size = wide ? kSummaryBlock * kSummaryBlock : kSummaryBlock;
  const i64 begin = (i64)block * size;
#pragma unroll 1
  for (int i = 0; i < terms; ++i) {
    const Term& term = terms_of(s)[i];
    if (!get(term.live) || begin >= get(term.may_hi) || begin + size <= get(term.may_lo)) continue;
    bool may = true;
#pragma unroll 1
    for (int j = 0; j < get(term.conditions) && may; ++j) may = may_meet(a, s, t, use_of(a, term, j), block, wide);
    if (may) return true;
  }
  return false;
}

/// Behind a barrier: the number of the first thread from `from` on whose bit in `may` is set; kThreads where none is.
__device__ __forceinline__ int first_set(Shared& s, int from) {
  int first = kThreads;
#pragma unroll 1
  for (int w = kWarps - 1; w >= from / 32; --w) {
    const unsigned lanes = get(s.may[w]) & (w == from / 32 ? ~0u << from % 32 : ~0u);
    first = lanes != 0 ? 32 * w + __ffs((int)lanes) - 1 : first;
  }
  return first;
}

/// Every thread says something of a block of keys, the first of block `known`.
__device__ __forceinline__ void tell_all(Shared& s, bool may, int known) {
  __syncthreads();
  const unsigned lanes = __ballot_sync(0xFFFFFFFFu, may);
  if (threadIdx.x % 32 == 0) put(s.may[threadIdx.x / 32], lanes);
  if (threadIdx.x == 0) put(s.known, known);
  __syncthreads();
}

__device__ __forceinline__ void move_to(Zone& zone, i64 key) {
  const i64 steps = key > zone.begin ? (key - zone.begin + zone.step - 1) / zone.step : 0;
  const i64 begin = zone.begin + steps * zone.step;
  zone.begin = begin < zone.end ? (int)begin : zone.end;
}

/// Moves a zone on to keys of which some row may keep one. What is found out of kThreads blocks serves all keys of
/// them, of this zone and the next ones.
__device__ __forceinline__ void pass_over(const weft_args& a, Shared& s, const Tile& t, int terms, Zone& zone) {
#pragma unroll 1
  while (zone.step > 0 && zone.begin < zone.end) {
    int block = zone.begin / kSummaryBlock;
    const int known = get(s.known);
    if (known >= 0 && block >= known && block < known + kThreads) {
      const int first = first_set(s, block - known);
      move_to(zone, (i64)(known + first) * kSummaryBlock);
      if (first < kThreads) return;
      continue;
    }
    if (kSpans) {
      constexpr int kWide = kSummaryBlock * kSummaryBlock;
      const int wide = zone.begin / kWide;
      tell_all(s, block_may_count(a, s, t, terms, wide + (int)threadIdx.x, true), -1);
      const int first = first_set(s, 0);
      move_to(zone, (i64)(wide + first) * kWide);
      if (first == kThreads || zone.begin >= zone.end) continue;
      block = zone.begin / kSummaryBlock;
    }
    tell_all(s, block_may_count(a, s, t, terms, block + (int)threadIdx.x, false), block);
  }
}
