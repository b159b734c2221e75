#pragma once

#include "codegen/cuda/device/philox.cuh"
#include "codegen/cuda/device/simt.cuh"

// Dropout: after the softmax's sum, so that l and the LSE know nothing of it. See semantics sections 5 and 7.

/// Multiplies the thread's own weights by `scale`, or makes them those of pairs that are not kept, whose V touches
/// nothing. One draw serves four keys, and neighbours of a list are mostly neighbours of the sequence.
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                             u64 threshold, float scale) {
  const u64 seed = a.seed_at != nullptr ? load_global<u64>(a.seed_at) : a.seed;
#pragma unroll 1
  for (int r = 0; r < kRowsEach; ++r) {
    const unsigned q = (unsigned)get(s.x[row_group() * kRowsEach + r]);
    uint4 words = {};
    int drawn = -1;
#pragma unroll 1
    for (int j = 0; j < kKeysEach; ++j) {
      const int key = lane_of_row() * kKeysEach + j;
      if (key >= count) break;
      const int k = get(s.key[from + key]);
      if (k / 4 != drawn) {
        drawn = k / 4;
        words = philox(make_uint4((unsigned)drawn, q, (unsigned)t.h | (unsigned)t.b << 16, 1), seed);
      }
      const unsigned pair[2] = {(k & 1) != 0 ? words.y : words.x, (k & 1) != 0 ? words.w : words.z};
      const bool dropped = ((k & 2) != 0 ? pair[1] : pair[0]) < threshold;
      float* const at = weight_at(s, key, row_group() * 2 + r / 4) + r % 4;
      store_shared(at, dropped ? -0.0f : load_shared<float>(at) * scale);
    }
  }
}
