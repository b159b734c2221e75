#pragma once

#include "codegen/cuda/device/numbers.cuh"

/// Philox4x32-10, as compiler/ir/philox.h, of several counters, which share the keys of a round.
template <int kCount>
__device__ __forceinline__ void philox(uint4 (&counters)[kCount], u64 seed) {
  unsigned low_key = (unsigned)seed, high_key = (unsigned)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      uint4& c = counters[i];
      const u64 x = (u64)0xD2511F53u * c.x, z = (u64)0xCD9E8D57u * c.z;
      c = make_uint4((unsigned)(z >> 32) ^ c.y ^ low_key, (unsigned)z, (unsigned)(x >> 32) ^ c.w ^ high_key,
                     (unsigned)x);
    }
    low_key += 0x9E3779B9u;
    high_key += 0xBB67AE85u;
  }
}

__device__ __forceinline__ uint4 philox(uint4 counter, u64 seed) {
  uint4 one[1] = {counter};
  philox(one, seed);
  return one[0];
}
