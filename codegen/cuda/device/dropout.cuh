#pragma once

#include "codegen/cuda/device/philox.cuh"
#include "codegen/cuda/device/simt.cuh"

// Dropout: after the softmax's sum, so that l and the LSE know nothing of it. See semantics sections 5 and 7.

/// Multiplies the thread's own weights of a part by `scale`, or makes them 0, as of pairs that are not kept. One draw
/// serves four keys, and neighbours of a list are mostly neighbours of the sequence.
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                             int part, u64 threshold, float scale) {
  const FourRows weights = four_rows(s);
  const u64 seed = a.seed_at != nullptr ? load_global<u64>(a.seed_at) : a.seed;
#pragma unroll 1
  for (int r = 0; r < kRowsEach; ++r) {
    const unsigned q = (unsigned)get(s.x[row_of(r)]);
    uint4 words = {};
    int drawn = -1;
#pragma unroll 1
    for (int j = 0; j < 4; ++j) {
      const int key = key_of(4 * part + j);
      if (key >= count) break;
      const int k = get(s.key[from + key]);
      if (k / 4 != drawn) {
        drawn = k / 4;
        words = philox(make_uint4((unsigned)drawn, q, (unsigned)t.h | (unsigned)t.b << 16, 1), seed);
      }
      const unsigned pair[2] = {(k & 1) != 0 ? words.y : words.x, (k & 1) != 0 ? words.w : words.z};
      const bool dropped = ((k & 2) != 0 ? pair[1] : pair[0]) < threshold;
      float* const at = weights.at(place_of(key) - part * kPartKeys, r) + r % 4;
      store_shared(at, dropped ? 0 : load_shared<float>(at) * scale);
    }
  }
}
