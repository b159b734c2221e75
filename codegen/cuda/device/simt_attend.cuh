#pragma once

#include "codegen/cuda/device/results.cuh"

// The softmax of a tile over the keys of one pass: full zones first, then the partial ones, each as a stream of blocks
// of kKeys.

/// Where the stream of keys is, in every thread of a warp. While products need the registers, shared memory keeps it.
__device__ __forceinline__ void park(Shared& s, const KeyStream& stream) {
  if (threadIdx.x % 32 == 0) put(s.stream[threadIdx.x / 32], stream.from << 16 | stream.ready);
  __syncwarp();
}
__device__ __forceinline__ KeyStream take_back(Shared& s) {
  const int both = get(s.stream[thread_anew() / 32]);
  __syncwarp();
  return {both >> 16, both & 0xFFFF};
}

template <typename Pairs = PlainPairs>
__device__ __forceinline__ void attend(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                       int zones) {
  Settled settled;
  settled.rounds = 0;
  KeyStream stream = {};
#pragma unroll 1
  for (int partial = 0; partial < 2; ++partial) {
    begin_walk(s, zones);
    bool mixed = stream.ready > 0;  // the first of the partial blocks
    __syncthreads();
#pragma unroll 1
    while (true) {
      next_block(a, s, partial ? kPartial : kFull, stream);
      const int count = keys_of_next(stream, partial != 0);
      const bool last = count == 0 && partial;
      if (last || (count > 0 && stream.from == 0)) end_round(s, st, &settled, last);
      if (count == 0) break;
      const int from = stream.from;
      pass_block(stream);
      park(s, stream);
      attend_block<Pairs>(a, s, st, w, t, from, count, partial != 0, mixed);
      stream = take_back(s);
      mixed = false;
    }
  }
}
