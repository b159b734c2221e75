#pragma once

#include "codegen/cuda/device/results.cuh"

// The softmax of a tile over the keys of one pass: full zones first, then the partial ones, each as a stream of blocks
// of kKeys. The rows of K of the next block arrive under the softmax and the second product of this one, the rows of V
// under its first; two barriers a block.

/// Which pairs of the block count, as far as that differs from pair to pair, and which of the warp's tiles have one.
template <typename Pairs>
__device__ __forceinline__ void open_block(const weft_args& a, Shared& s, Block& block) {
  const int first = (int)(thread_anew() / 32 * 16), rows = get(s.tile.count);
  unsigned tiles = 0;
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) tiles |= first + i * (16 * kWarps) < rows ? kMarkTile << i : 0;
  if (block.is & kMarkPartial) {
    weigh_pairs(a, s, tile_of(s), block.from, count_of(block), (block.is & kMarkMixed) != 0, block.kept);
    bool whole = true;  // are all pairs of a tile kept, or none?
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
      // fault(lanes_that_do_not_agree) value: kept_by_any(block.kept, i) != 0
      const bool any = __any_sync(0xFFFFFFFFu, kept_by_any(block.kept, i) != 0);
      whole = whole && any == (__all_sync(0xFFFFFFFFu, all_are_kept(block.kept, i)) != 0);
      if (!any) tiles &= ~(kMarkTile << i);
    }
    // fault(tiles_half_kept_are_not_masked) instead: mark(block, kMarkMasked, false);
    mark(block, kMarkMasked, __syncthreads_and(whole) == 0);
  } else if (Pairs::kDrops) {
    // For NaN and infinities in V: without dropout all rows take them as the product gives them.
#pragma unroll
    for (int i = 0; i < kTilesEach * kPlanes; ++i) block.kept.digits[i / kTilesEach][i % kTilesEach] = ~0u;
  }
  block.is = (block.is & ~kMarkTiles) | tiles;
}

/// From the products of a block to its share of O.
template <typename Pairs>
__device__ __forceinline__ void close_block(const weft_args& a, Shared& s, State& st, Block& block) {
  if (block.is & kMarkTiles) {
    const float scale = get(s.scale);
    if constexpr (Pairs::kScored) apply_score<Pairs>(a, s, block);
    if (block.is & kMarkMasked) {
      mask_scores(block);
    } else if (block.is & kMarkPartial) {
      // fault(tiles_without_a_pair_weigh) leaves this out
      leave_out_tiles(block);
    }
    if (!kDirect) raise_maxima(st, block.scores, scale);
    weigh_scores(s, st, block, scale);
    if constexpr (Pairs::kDrops) drop_weights<Pairs>(a, s, block);
  }
  if (block.is & kMarkStrange) add_strange(s, st, block);
  if ((block.is & kMarkTiles) == kMarkTiles) {
    multiply_values<true>(s, st, block);
  } else if (block.is & kMarkTiles) {
    multiply_values<false>(s, st, block);
  }
}

template <typename Pairs = PlainPairs>
__device__ __forceinline__ void attend(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                       int zones) {
  if (zones == 0) return;
  // Scores of plain pairs are only scaled: a sign of the scale is one of Q.
  stage_queries(s, w, t, !Pairs::kScored && a.scale < 0 ? 0x80008000u : 0);
  if (kCounts) {
#pragma unroll 1
    for (int i = threadIdx.x; i < kKeyList; i += kThreads) put(s.key_weight[i], 0.0f);
  }
  constexpr float kToBaseTwo = 1.44269504088896341f;
  // A scale of 0 must not meet the infinities of the mask.
  const float scale = Pairs::kScored ? kToBaseTwo : fmaxf(fabsf((float)a.scale) * kToBaseTwo, 1e-30f);
  if (threadIdx.x == 0) put(s.scale, scale);
  Rows<kDim> keys;
  Rows<kDimV> values;
  KeyStream stream = {};
  Settled settled;
  settled.rounds = 0;
  Block block;
#pragma unroll 1
  for (int sweep = 0; sweep < 2; ++sweep) {
    begin_walk(s, zones);
    block.is = (sweep == 1 ? kMarkPartial : 0) | (stream.ready > 0 ? kMarkMixed : 0);
    __syncthreads();
#pragma unroll 1
    while (true) {
      const bool open = count_of(block) > 0;
      if (open) {
        finish_rows(keys, s.keys, k_rows(s));
        // fault(values_before_the_barrier) leaves this out
        __syncthreads();
        block.from = place_before(stream);
        start_rows(s, values, s.values, v_rows(s), block.from, count_of(block),
                   step_of(s, block.from, stream.ready + kKeys, (block.is & kMarkMixed) != 0));
        // fault(values_before_the_barrier) also: __syncthreads();
        open_block<Pairs>(a, s, block);
      }
      // Here, because S is not in registers yet.
      next_block(a, s, block.is & kMarkPartial ? kPartial : kFull, stream);
      if (open) {
        if ((block.is & kMarkTiles) == kMarkTiles) {
          multiply_scores<true>(s, block);
        } else if (block.is & kMarkTiles) {
          multiply_scores<false>(s, block);
        }
        // fault(copies_waited_for_behind_the_barrier) also: __syncthreads();
        finish_rows(values, s.values, v_rows(s));
        // fault(copies_waited_for_behind_the_barrier) leaves this out
        // fault(keys_before_the_barrier) leaves this out
        __syncthreads();
        if (block.is & kMarkMasked || Pairs::kDrops)
          mark(block, kMarkStrange, __syncthreads_or(find_strange(s, false)) != 0);
      }
      if (const int next = keys_of_next(stream, block.is & kMarkPartial); next > 0) {
        // fault(steps_read_before_the_barrier) leaves this out
        if (!open) __syncthreads();
        start_rows(s, keys, s.keys, k_rows(s), stream.from, next,
                   step_of(s, stream.from, stream.ready, (block.is & kMarkMixed) != 0));
      }
      block.from = place_before(stream);  // again, because a register for it would be one too many
      if (open) close_block<Pairs>(a, s, st, block);
      const int next = keys_of_next(stream, block.is & kMarkPartial);
      if (next > 0) {
        if (open) mark(block, kMarkMixed, false);
        block.is = block.is % kMarkCount + (unsigned)next * kMarkCount;
        pass_block(stream);
      }
      const bool last = next == 0 && block.is & kMarkPartial;
      if (last || (next > 0 && stream.from == 0)) end_round(s, st, &settled, last);
      if (next == 0) break;
    }
  }
}
