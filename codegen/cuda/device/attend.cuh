#pragma once

#include "codegen/cuda/device/results.cuh"

// One tile of rows, from its number to its softmax over the keys of one pass.

/// Which (batch entry, head) and which tile of it the block computes; its rows. False when it has none.
__device__ __forceinline__ bool open_tile(const weft_args& a, Shared& s, Tile& t, const i64*& head) {
  const int number = (int)a.tile_begin + (int)blockIdx.x;  // the launch has fewer than 2^31
  const int head_number = number / (int)a.tiles_per_head;
  t.b = head_number / (int)a.heads;
  t.h = head_number - t.b * (int)a.heads;
  t.offset = first_position(a, t.b);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      if ((kLengths >> i & 1) == 0) continue;
      const int* const data = (const int*)a.inputs[i].data;
      put(s.inputs[i], load_global<int>(data + times(t.b, a.inputs[i].strides[0])));
    }
  }
  const i64* const phase = a.tables + word(a.tables + 1 + a.phase);
  head = a.tables + word(phase + 2 + t.h);
  make_rows(a, s, t, head, number - head_number * (int)a.tiles_per_head, word(phase + 1) != 0);
  if (t.count == 0) return false;
  if (kConditions > 0) describe_conditions(a, s, t);
  return true;
}

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
