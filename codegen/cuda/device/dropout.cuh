#pragma once

#include "codegen/cuda/device/pairs.cuh"
#include "codegen/cuda/device/philox.cuh"

// Dropout: after the softmax's sum, so that l and the LSE know nothing of it. See semantics sections 5 and 7.

/// One draw serves four keys of a row, and neighbours of a list are mostly neighbours of the sequence.
struct Draw {
  u64 seed;
  int row, keys;  // those of `words`; -1 before the first
  uint4 words;
};

__device__ __forceinline__ Draw first_draw(const weft_args& a) {
  return {a.seed_at != nullptr ? load_global<u64>(a.seed_at) : a.seed, -1, -1, {}};
}

/// For keys 4 * keys and the next three of the query at position q.
__device__ __forceinline__ uint4 counter_of(const Tile& t, int keys, int q) {
  return make_uint4((unsigned)keys, (unsigned)q, (unsigned)t.h | (unsigned)t.b << 16, 1);
}
__device__ __forceinline__ void draw_anew(const Tile& t, Draw& draw, int row, int keys, int q) {
  draw.keys = keys;
  draw.row = row;
  draw.words = philox(counter_of(t, keys, q), draw.seed);
}

/// Is the weight of key k dropped, where its four are drawn?
template <typename Pairs>
__device__ __forceinline__ bool is_dropped(const Draw& draw, int k) {
  const unsigned pair[2] = {(k & 1) != 0 ? draw.words.y : draw.words.x, (k & 1) != 0 ? draw.words.w : draw.words.z};
  return ((k & 2) != 0 ? pair[1] : pair[0]) < Pairs::kDropped;
}

/// … in the thread's row i?
template <typename Pairs>
__device__ __forceinline__ bool is_dropped(Shared& s, const Tile& t, Draw& draw, int i, int k) {
  if (k / 4 != draw.keys || i != draw.row) draw_anew(t, draw, i, k / 4, get(s.x[row_of(i)]));
  return is_dropped<Pairs>(draw, k);
}

/// … of the query at position q? That is what `row` is, then.
template <typename Pairs>
__device__ __forceinline__ bool is_dropped(const Tile& t, Draw& draw, int q, int k) {
  if (k / 4 != draw.keys || q != draw.row) draw_anew(t, draw, q, k / 4, q);
  return is_dropped<Pairs>(draw, k);
}
