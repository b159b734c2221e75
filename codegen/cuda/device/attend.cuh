#pragma once

#include "codegen/cuda/device/results.cuh"

// The softmax of a tile over the keys of one pass.

/// Softmax over the keys of one pass: full zones first, then the partial ones, each as a stream of blocks of kKeys.
template <typename Pairs = PlainPairs>
__device__ __forceinline__ void attend(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                       const i64* pass, int zones) {
  const int terms = (int)word(pass + kTerms);
  const Zone* const zone_list = lists_of(a, s).zone;
#pragma unroll 1
  for (int sweep = 0; sweep < 2; ++sweep) {
    const bool partial = sweep == 1;
    int filled = 0, done = 0;
    int next = 0;  // zone
    Zone zone = {0, 0, 0, kEmpty};
#pragma unroll 1
    while (true) {
      if (filled - done < kKeys) {
        if (zone.begin < zone.end) {
          filled = append_keys(a, s, t, terms, zone, drop_keys(s, done, filled));
          done = 0;
          continue;
        }
        if (next < zones) {
          zone = get(zone_list[next]);
          ++next;
          if (zone.kind != (partial ? kPartial : kFull)) zone.end = zone.begin;
          continue;
        }
        if (done == filled) break;
      }
      const int count = min(kKeys, filled - done);
      attend_block<Pairs>(a, s, st, w, t, pass, terms, done, count, partial);
      done += count;
    }
  }
}
