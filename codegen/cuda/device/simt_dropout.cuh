#pragma once

#include "codegen/cuda/device/dropout.cuh"
#include "codegen/cuda/device/simt_softmax.cuh"

/// Multiplies the thread's own weights of a part, or makes them 0, as of pairs that are not kept.
template <typename Pairs>
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                             int part) {
  const FourRows weights = four_rows(s);
  Draw draw = first_draw(a);
#pragma unroll 1
  for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll 1
    for (int j = 0; j < 4; ++j) {
      const int key = key_of(4 * part + j);
      if (key >= count) break;
      const bool dropped = is_dropped<Pairs>(s, t, draw, r, get(s.key[from + key]));
      float* const at = weights.at(place_of(key) - part * kPartKeys, r) + r % 4;
      store_shared(at, dropped ? 0 : load_shared<float>(at) * Pairs::kScaled);
    }
  }
}
