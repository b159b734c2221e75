#pragma once

#include "codegen/cuda/device/summaries.cuh"

// Conditions on a value of the key, as documents are: where the keys that a run of rows keeps follow each other, the
// condition is two bounds more. Then it masks as bounds do, and blocks that all rows keep are full.

/// The keys that lanes of a warp have found: where they lie, and how many they are.
struct FoundKeys {
  int first, end;
  int count;
};
__device__ __forceinline__ void find(FoundKeys& found, i64 from, i64 end) {
  found.first = min(found.first, (int)from);
  found.end = max(found.end, (int)end);
  found.count += (int)(end - from);
}

/// The lanes, as bits, whose blocks of `size` keys have values of [lo, hi) beside others. A value that is stored as the
/// least or the largest int may be another.
__device__ __forceinline__ unsigned find_in_spans(const weft_args& a, FoundKeys& found, const int* spans, int block,
                                                  int size, i64 lo, i64 hi) {
  const i64 from = (i64)block * size, end = min(from + size, a.n_k);
  bool some = false;
  if (from < end) {
    const i64 least = load_global<int>(spans + 2 * (i64)block), most = load_global<int>(spans + 2 * (i64)block + 1);
    const bool any = most >= stored_key(lo) && least <= stored_key(hi - 1);
    // fault(a_block_whose_largest_value_is_kept_is_kept) value: any && most < hi
    const bool all = any && least >= lo && most < hi && least > -(i64)kLargest - 1 && most < kLargest;
    if (all) find(found, from, end);
    // fault(blocks_that_are_partly_kept_are_none) value: false
    some = any && !all;
  }
  return __ballot_sync(0xFFFFFFFFu, some);
}

/// More blocks than these are not looked into: an interval has two ends, and few values lie between others by chance.
constexpr int kMostLookedInto = 12;

/// By a warp: which keys the row at position x keeps, if they follow each other.
__device__ __forceinline__ bool find_keys_of_row(const weft_args& a, const Tile& t, int condition, int x, int2& keys) {
  constexpr int kWide = kSummaryBlock * kSummaryBlock;
  static_assert(kSummaryBlock == 64, "two for each lane");
  const i64 lo = lo_of(a, t, condition, x), hi = hi_of(a, t, condition, x);
  const int* const spans = summary_of(a.lists[spans_of(condition)], t);
  const int blocks = key_blocks(a), lane = (int)threadIdx.x % 32;
  FoundKeys found = {kLargest, 0, 0};
  int looked_into = 0;
#pragma unroll 1
  for (int wide = 0; wide * kSummaryBlock < blocks; wide += 32) {
    unsigned wides = find_in_spans(a, found, spans + 2 * (i64)blocks, wide + lane, kWide, lo, hi);
#pragma unroll 1
    for (; wides != 0; wides &= wides - 1) {
      if (++looked_into > kMostLookedInto) return false;
      const int first = (wide + __ffs((int)wides) - 1) * kSummaryBlock;
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
        unsigned some = find_in_spans(a, found, spans, first + 32 * half + lane, kSummaryBlock, lo, hi);
#pragma unroll 1
        for (; some != 0; some &= some - 1) {
          if (++looked_into > kMostLookedInto) return false;
          const i64 begin = (i64)(first + 32 * half + __ffs((int)some) - 1) * kSummaryBlock;
#pragma unroll 1
          for (i64 y = begin + lane; y < min(begin + kSummaryBlock, a.n_k); y += 32) {
            const i64 value = key_of(a, t, condition, (int)y);
            if (value >= lo && value < hi) find(found, y, y + 1);
          }
        }
      }
    }
  }
  found.first = least_of<32>(found.first);
  found.end = most_of<32>(found.end);
  found.count = sum_of<32>(found.count);
  // fault(keys_with_others_between_are_an_interval) value: true
  const bool follow = found.end - found.first == found.count;
  if (found.count == 0) found = {0, 0, 0};
  keys = make_int2(found.first, found.end);
  return found.count == 0 || follow;
}

/// By all threads: each warp takes some of the runs.
__device__ __forceinline__ bool find_keys_of_runs(const weft_args& a, Shared& s, const Tile& t, int condition,
                                                  int runs) {
  Condition& c = s.conditions[condition];
  // Of queries that no key stands beside nothing is known.
  // fault(queries_without_keys_beside_them_are_not_kept) value: true
  bool bound = !kTransposed || (t.key_begin >= 0 && t.key_end <= a.n_k);
  __syncthreads();
#pragma unroll 1
  for (int r = (int)threadIdx.x / 32; r < runs && bound; r += kWarps) {
    int2 keys = {0, 0};
    // fault(every_run_keeps_the_first_ones_keys) value: get(c.row[0])
    const int x = get(c.row[r]);
    bound = find_keys_of_row(a, t, condition, x, keys);
    if (threadIdx.x % 32 == 0) put(c.keys[r], keys);
  }
  return __syncthreads_and(bound) != 0;
}
