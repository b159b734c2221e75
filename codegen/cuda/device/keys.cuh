#pragma once

#include "codegen/cuda/device/summaries.cuh"

// From zones to lists of keys: every thread tries one, and those that some branch keeps close ranks.

/// Does key y meet the congruences of a term, its stream's and its filters'?
__device__ __forceinline__ bool hits(const weft_args& a, const Term& term, int y) {
  if (!kHasStreams && !kHasFilters) return true;
  int segment = get(term.segment), rate = get(term.rate), residue = get(term.residue);
  bool wanted = true;
  const i64* filter = a.tables + get(term.filter_at);
#pragma unroll 1
  for (int left = kHasFilters ? get(term.filters) : 0;; --left, filter += kFilterWords) {
    const int in_segment = segment > 0 ? y % segment : y;
    if ((in_segment % rate == residue) != wanted) return false;
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
    if (branch == counted || !get(term.live) || y < get(term.may_lo) || y >= get(term.may_hi)) continue;
    if (!hits(a, term, y)) continue;
    if (kConditions > 0 && !may_hold(a, s, t, term, y)) continue;
    counted = branch;
    ++weight;
  }
  return weight;
}

/// Tries the zone's next keys, one per thread, and appends those that count; returns how many the list holds now.
__device__ __forceinline__ int append_keys(const weft_args& a, Shared& s, const Tile& t, int terms, Zone& zone,
                                           int filled) {
  pass_over(a, s, t, terms, zone);
  const i64 y = zone.begin + (i64)threadIdx.x * zone.step;
  const int weight = zone.step > 0 && y < zone.end ? weight_of(a, s, t, terms, (int)y) : 0;
  const unsigned kept = __ballot_sync(0xFFFFFFFFu, weight > 0);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) put(s.counts[warp], __popc(kept));
  __syncthreads();
  int at = filled + __popc(kept & ((1u << lane) - 1));
#pragma unroll 1
  for (int w = 0; w < kWarps; ++w) {
    const int count = get(s.counts[w]);
    if (w < warp) at += count;
    filled += count;
  }
  if (weight > 0) {
    put(s.key[at], (int)y);
    put(s.key_weight[at], log2_approx((float)weight));
  }
  __syncthreads();
  const i64 next = zone.begin + (i64)kThreads * zone.step;
  zone.begin = zone.step > 0 && next < zone.end ? (int)next : zone.end;
  return filled;
}

/// Moves the keys from `done` on to the front of the list; returns how many they are.
__device__ __forceinline__ int drop_keys(Shared& s, int done, int filled) {
  const int rest = filled - done;
  if (done == 0) return filled;
  const bool mine = (int)threadIdx.x < rest;
  const int y = mine ? get(s.key[done + threadIdx.x]) : 0;
  const float weight = mine ? get(s.key_weight[done + threadIdx.x]) : 0;
  __syncthreads();
  if (mine) {
    put(s.key[threadIdx.x], y);
    put(s.key_weight[threadIdx.x], weight);
  }
  __syncthreads();
  return rest;
}
