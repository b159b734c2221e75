#pragma once

#include "codegen/cuda/device/results.cuh"

// The softmax of a tile over the keys of one pass.

/// Where the walk over the zones is: full ones first, then the partial ones. Keys [done, filled) of the list wait.
struct Walk {
  int sweep, zones, next;  // zone
  int begin, end, step;    // of the zone at hand
  int done, filled;
};

/// Every thread of a warp holds the same walk. While products need the registers, each lane keeps one word of it.
__device__ __forceinline__ int park(const Walk& walk) {
  const int lane = threadIdx.x % 32;
  const int low = lane < 2 ? (lane < 1 ? walk.sweep : walk.zones) : lane < 3 ? walk.next : walk.begin;
  const int high = lane < 6 ? (lane < 5 ? walk.end : walk.step) : lane < 7 ? walk.done : walk.filled;
  return lane < 4 ? low : high;
}
__device__ __forceinline__ Walk take_back(int parked) {
  const auto word = [&](int lane) { return __shfl_sync(0xFFFFFFFFu, parked, lane); };
  return {word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7)};
}

/// Fills the list until a block of keys waits, or no zone is left. False when no key is. What full zones leave goes
/// with the partial ones: a block of few keys costs as much as any.
__device__ __forceinline__ bool find_keys(const weft_args& a, Shared& s, const Tile& t, Walk& walk) {
  const int terms = (int)word(get(s.pass) + kTerms);
#pragma unroll 1
  while (walk.filled - walk.done < kKeys) {
    if (walk.begin < walk.end) {
      Zone zone = {walk.begin, walk.end, walk.step, kFull};
      walk.filled = append_keys(a, s, t, terms, zone, drop_keys(s, walk.done, walk.filled));
      walk.begin = zone.begin;
      walk.done = 0;
    } else if (walk.next < walk.zones) {
      const Zone zone = get(lists_of(a, s).zone[walk.next]);
      ++walk.next;
      walk.begin = zone.begin;
      walk.end = zone.kind == (walk.sweep == kOfFull ? kFull : kPartial) ? zone.end : zone.begin;
      walk.step = zone.step;
    } else if (walk.sweep != kOfFull) {
      return walk.done < walk.filled;
    } else {
      walk.sweep = walk.done < walk.filled ? kOfMixed : kOfPartial;
      walk.next = 0;
    }
  }
  return true;
}

/// Softmax over the keys of one pass, as a stream of blocks of kKeys.
template <typename Pairs = PlainPairs>
__device__ __forceinline__ void attend(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                       int zones) {
  Walk walk = {0, zones, 0, 0, 0, 0, 0, 0};
#pragma unroll 1
  while (find_keys(a, s, t, walk)) {
    const int from = walk.done, count = min(kKeys, walk.filled - from);
    walk.done += count;
    const int parked = park(walk);
    attend_block<Pairs>(a, s, st, w, t, from, count, walk.sweep);
    walk = take_back(parked);
    if (walk.sweep == kOfMixed) walk.sweep = kOfPartial;
  }
}
