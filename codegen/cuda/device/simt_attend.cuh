#pragma once

#include "codegen/cuda/device/results.cuh"

// What a tile sums up over the keys of one pass, its softmax or gradients: full zones first, then the partial ones, each
// as a stream of blocks of kKeys.

/// Where the stream of keys is, in every thread of a warp, and whether its zones are partial. While products need the
/// registers, shared memory keeps it.
__device__ __forceinline__ void park(Shared& s, const KeyStream& stream, bool partial) {
  if (threadIdx.x % 32 == 0)
    put(s.stream[threadIdx.x / 32], stream.from << 16 | (partial ? 1 << 15 : 0) | stream.ready);
  __syncwarp();
}
__device__ __forceinline__ KeyStream take_back(Shared& s, bool& partial) {
  static_assert(kKeyList < 1 << 15);
  const int all = get(s.stream[thread_anew() / 32]);
  __syncwarp();
  partial = (all >> 15 & 1) != 0;
  return {all >> 16, all & 0x7FFF};
}

template <typename Pairs = PlainPairs, typename State>
__device__ __forceinline__ void attend(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                       int zones) {
  typename State::Settled settled;
  settled.rounds = 0;
  KeyStream stream = {};
  bool partial = false, mixed = false;  // mixed: the first of the partial blocks has keys of full zones, too
  begin_walk(s);
  __syncthreads();
#pragma unroll 1
  while (true) {
    next_block(a, s, partial ? kPartial : kFull, stream);
    const int count = keys_of_next(stream, partial);
    const bool last = count == 0 && partial;
    if (last || (count > 0 && stream.from == 0)) end_round(s, st, &settled, last);
    if (last) break;
    if (count == 0) {
      partial = true;
      mixed = stream.ready > 0;
      begin_walk(s);
      __syncthreads();
      continue;
    }
    const int from = stream.from;
    pass_block(stream);
    park(s, stream, partial);
    // fault(keys_of_two_zones_taken_to_ascend) also: mixed = false;
    attend_block<Pairs>(a, s, st, w, t, from, count, partial, mixed);
    stream = take_back(s, partial);
    mixed = false;
  }
}

/// Products leave out pairs that are masked.
__device__ __forceinline__ bool is_wanted_again(Shared&, const State&, const i64*&) { return false; }
