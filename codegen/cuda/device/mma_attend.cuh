#pragma once

#include "codegen/cuda/device/mma_results.cuh"

// The softmax of a tile over the keys of one pass: full zones first, then the partial ones, each as a stream of blocks
// of kKeys. The rows of K of the next block arrive under the softmax and the second product of this one, the rows of V
// under its first; two barriers a block.

/// Which of the warp's tiles have rows: a bit each.
__device__ __forceinline__ int tiles_with_rows(Shared& s) {
  int bits = 0;
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i)
    bits |= (i * kWarps + (int)threadIdx.x / 32) * 16 < get(s.tile.count) ? 1 << i : 0;
  return bits;
}

/// Which pairs of the block count, as far as that differs from pair to pair. Returns whether some pair of the warp
/// does.
__device__ __forceinline__ bool open_block(const weft_args& a, Shared& s, const i64* pass, int tiles, Block& block) {
  if (block.partial) {
    weigh_pairs(a, s, pass, block.from, block.count, block.mixed, block.kept);
  } else {
#pragma unroll
    for (int i = 0; i < kTilesEach * kPlanes; ++i) block.kept.digits[i / kTilesEach][i % kTilesEach] = ~0u;
  }
  bool any = false;
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
    const bool some = (tiles >> i & 1) != 0;
    block.busy[i] = some && (!block.partial || __any_sync(0xFFFFFFFFu, kept_by_any(block.kept, i) != 0));
    any = any || block.busy[i];
  }
  return any;
}

/// From the products of a block to its share of O.
template <typename Pairs>
__device__ __forceinline__ void close_block(const weft_args& a, Shared& s, State& st, Block& block, bool busy,
                                            bool strange, float scale) {
  if (busy) {
    if constexpr (Pairs::kScored) apply_score<Pairs>(a, s, block);
    if (block.partial) mask_scores(block);
    if (!kDirect) raise_maxima(st, block.scores, scale);
    weigh_scores(s, st, block, scale);
    if constexpr (Pairs::kDrops) drop_weights<Pairs>(a, s, block);
  }
  if (strange) add_strange(s, st, block);
  if (!busy) return;
  all_busy(block) ? multiply_values<true>(s, st, block) : multiply_values<false>(s, st, block);
}

template <typename Pairs = PlainPairs>
__device__ __forceinline__ void attend(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                       int zones) {
  const i64* const pass = get(s.pass);
  if (zones == 0) return;
  // Scores of plain pairs are only scaled: a sign of the scale is one of Q.
  stage_queries(s, w, t, !Pairs::kScored && a.scale < 0 ? 0x80008000u : 0);
  if (kCounts) {
#pragma unroll 1
    for (int i = threadIdx.x; i < kKeyList; i += kThreads) put(s.key_weight[i], 0.0f);
  }
  constexpr float kToBaseTwo = 1.44269504088896341f;
  // Of S, for exponents of 2. A scale of 0 must not meet the infinities of the mask.
  const float scale = Pairs::kScored ? kToBaseTwo : fmaxf(fabsf((float)a.scale) * kToBaseTwo, 1e-30f);
  const int tiles = tiles_with_rows(s);
  Rows<kDim> keys;
  Rows<kDimV> values;
  KeyStream stream = {};
  Settled settled;
  settled.rounds = 0;
  Block block;
  bool busy = false, strange = false;
#pragma unroll 1
  for (int sweep = 0; sweep < 2; ++sweep) {
    set_walk(s, {0, 0, 0, kEmpty}, 0);
    if (threadIdx.x == 0) {
      put(s.walk.zones, zones);
      put(s.walk.terms, (int)word(pass + kTerms));
    }
    block.count = 0;
    block.partial = sweep == 1;
    block.mixed = stream.ready > 0;
    __syncthreads();
#pragma unroll 1
    while (true) {
      const bool open = block.count > 0;
      if (open) {
        finish_rows(keys, k_rows(s), w.aligned);
        __syncthreads();
        start_rows(s, values, s.values, v_rows(s), w.aligned, block.from, block.count, block.step);
        busy = open_block(a, s, pass, tiles, block);
      }
      // Here, because S is not in registers yet.
      const int next = next_block(a, s, block.partial ? kPartial : kFull, stream);
      if (open) {
        if (busy) all_busy(block) ? multiply_scores<true>(s, block) : multiply_scores<false>(s, block);
        finish_rows(values, v_rows(s), w.aligned);
        __syncthreads();
        if (block.partial || Pairs::kDrops) strange = __syncthreads_or(find_strange(s, false)) != 0;
      }
      const int step = step_of(stream);
      if (next > 0) start_rows(s, keys, s.keys, k_rows(s), w.aligned, stream.from, next, step);
      if (open) close_block<Pairs>(a, s, st, block, busy, strange, scale);
      if (next > 0) {
        block.mixed = block.mixed && !open;
        block.from = stream.from;
        block.count = next;
        block.step = step;
        pass_block(stream);
      }
      const bool last = next == 0 && block.partial;
      if (last || (next > 0 && stream.from == 0)) end_round(st, &settled, last);
      if (next == 0) break;
    }
  }
}
