#pragma once

#include "codegen/cuda/device/results.cuh"

// The softmax of a tile over the keys of one pass.

/// Where the walk over the zones is: full ones first, then the partial ones. Keys [done, filled) of the list wait.
struct Walk {
  int sweep, zones, next;  // zone
  int blocks;              // that were computed
  int begin, end, step;    // of the zone at hand
  int done, filled;
};

/// Every thread of a warp holds the same walk. While products need the registers, shared memory keeps it.
__device__ __forceinline__ void park(Shared& s, const Walk& walk) {
  int* const to = s.walk[threadIdx.x / 32];
  if (threadIdx.x % 32 == 0) {
    store_shared(to, make_int4(walk.blocks * 4 + walk.sweep, walk.zones, walk.next, walk.begin));
    store_shared(to + 4, make_int4(walk.end, walk.step, walk.done, walk.filled));
  }
  __syncwarp();
}
__device__ __forceinline__ Walk take_back(Shared& s) {
  const int* const from = s.walk[thread_anew() / 32];
  const int4 low = load_shared<int4>(from), high = load_shared<int4>(from + 4);
  __syncwarp();
  return {low.x & 3, low.y, low.z, low.x >> 2, low.w, high.x, high.y, high.z, high.w};
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
  constexpr int kBlocksBetween = kKeysBetween / kKeys;
  Settled settled;
  Walk walk = {0, zones, 0, 0, 0, 0, 0, 0, 0};
#pragma unroll 1
  while (true) {
    const bool last = !find_keys(a, s, t, walk);
    if (walk.blocks >= kBlocksBetween && (walk.blocks % kBlocksBetween == 0 || last))
      settle(s, st, settled, walk.blocks > kBlocksBetween, last);
    if (last) break;
    ++walk.blocks;
    const int from = walk.done, count = min(kKeys, walk.filled - from);
    walk.done += count;
    park(s, walk);
    attend_block<Pairs>(a, s, st, w, t, from, count, walk.sweep);
    walk = take_back(s);
    if (walk.sweep == kOfMixed) walk.sweep = kOfPartial;
  }
}
