#pragma once

#include "codegen/cuda/device/mma_results.cuh"

// The softmax of a tile over the keys of one pass: full zones first, then the partial ones, each as a stream of blocks
// of kKeys. The rows of K of the next block arrive under the softmax and the second product of this one, the rows of V
// under its first; two barriers a block.

/// Which pairs of the block count, as far as that differs from pair to pair. Returns whether some pair of the warp does.
__device__ __forceinline__ bool open_block(const weft_args& a, Shared& s, const Tile& t, const i64* pass, int terms,
                                           Block& block) {
  block.masked = block.partial || block.count < kKeys;
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) block.kept.any[i] = ~0u;
  if (block.partial) {
    weigh_pairs(a, s, t, pass, terms, block.from, block.count, block.kept);
  } else if (block.masked) {
    keep_first(block.kept, block.count);
  }
  bool any = false;
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
    block.busy[i] = !block.partial || __any_sync(0xFFFFFFFFu, block.kept.any[i] != 0);
    any = any || block.busy[i];
  }
  return any;
}

/// From the products of a block to its share of O.
template <typename Pairs>
__device__ __forceinline__ void close_block(const weft_args& a, Shared& s, State& st, const Tile& t, Block& block,
                                            bool busy, bool strange) {
  if (busy) {
    constexpr float kToBaseTwo = 1.44269504088896341f;
    // A scale of 0 must not meet the infinities of the mask.
    float scale = fmaxf(fabsf((float)a.scale) * kToBaseTwo, 1e-30f);
    if constexpr (Pairs::kScored) {
      apply_score<Pairs>(a, s, t, block);
      scale = kToBaseTwo;
    }
    if (block.masked) mask_scores(block);
    raise_maxima(st, block.scores, scale);
    weigh_scores(s, st, block, scale);
    if constexpr (Pairs::kDrops) drop_weights<Pairs>(a, s, t, block);
  }
  if (strange) add_strange(s, st, block);
  if (busy) multiply_values(s, st, block);
}

template <typename Pairs = PlainPairs>
__device__ __forceinline__ void attend(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                       const i64* pass, int zones) {
  if (zones == 0) return;
  const int terms = (int)word(pass + kTerms);
  // Scores of plain pairs are only scaled: a sign of the scale is one of Q.
  stage_queries(s, w, t, !Pairs::kScored && a.scale < 0 ? 0x80008000u : 0);
  if (kCounts) {
#pragma unroll 1
    for (int i = threadIdx.x; i < kKeyList; i += kThreads) put(s.key_weight[i], 0.0f);
  }
  Rows<kDim> keys = {w.k, w.k_step, w.k_page, k_rows(s), w.aligned};
  Rows<kDimV> values = {w.v, w.v_step, w.v_page, v_rows(s), w.aligned};
  KeyStream stream = {};
  Block block;
  bool busy = false, strange = false;
#pragma unroll 1
  for (int sweep = 0; sweep < 2; ++sweep) {
    stream.next = 0;
    block.count = 0;
    block.partial = sweep == 1;
#pragma unroll 1
    while (true) {
      const int next = next_block(a, s, t, terms, zones, block.partial ? kPartial : kFull, stream);
      if (next > 0) start_rows(s, keys, stream.from, next);
      if (block.count > 0) close_block<Pairs>(a, s, st, t, block, busy, strange);
      if (next == 0) break;
      block.from = stream.from;
      block.count = next;
      pass_block(stream);
      finish_rows(keys);
      __syncthreads();
      start_rows(s, values, block.from, block.count);
      busy = open_block(a, s, t, pass, terms, block);
      if (busy) multiply_scores(s, block);
      finish_rows(values);
      __syncthreads();
      if (block.partial || Pairs::kDrops) strange = __syncthreads_or(find_strange(s, false)) != 0;
    }
  }
}
