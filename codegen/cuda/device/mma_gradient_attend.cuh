#pragma once

#include "codegen/cuda/device/mma_gradient.cuh"

// What a tile sums up over the keys of one pass: full zones first, then the partial ones, each as a stream of blocks of
// kKeys. Where shared memory has room for two, the rows of the next block arrive under all of this one.

/// Which pairs of the block count, and which of the warp's tiles have one.
__device__ __forceinline__ void open_block(const weft_args& a, Shared& s, Block& block) {
  const int first = (int)(thread_anew() / 32 * 16), rows = get(s.tile.count);
  unsigned tiles = 0;
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) tiles |= first + i * (16 * kWarps) < rows ? (unsigned)kMarkTile << i : 0;
  bool masked = false;
  if (block.is & kMarkPartial) {
    weigh_pairs(a, s, tile_of(s), block.from, count_of(block), block.is & kMarkMixed, block.kept);
    bool whole = true;  // are all pairs of a tile kept, or none?
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
      const bool any = __any_sync(0xFFFFFFFFu, kept_by_any(block.kept, i) != 0);
      // fault(tiles_half_kept_are_not_masked_in_gradients) value: true
      whole = whole && any == (__all_sync(0xFFFFFFFFu, all_are_kept(block.kept, i)) != 0);
      if (!any) tiles &= ~((unsigned)kMarkTile << i);
    }
    masked = __syncthreads_and(whole) == 0;
  }
  block.is = (block.is & ~(kMarkTiles | kMarkMasked)) | tiles | (masked ? kMarkMasked : 0);
}

/// The rows of the block of `count` keys from place `from` of the list on, `listed` of which stand there; and, of queries,
/// their terms, with delta as it is.
__device__ __forceinline__ void start_block(const weft_args& a, Shared& s, Rows<kDim>& first, Rows<kDimV>& second,
                                            int stage, int from, int count, int listed, bool mixed) {
  const int step = step_of(s, from, listed, mixed);
  start_rows(s, first, s.of_keys[0], rows_of_keys<0>(s) + stage, from, count, step);
  start_rows(s, second, s.of_keys[1], rows_of_keys<1>(s) + stage, from, count, step);
  const int thread = (int)thread_anew();
  if (!kTransposed || kDirect || thread >= kKeys) return;
  float2* const to = &s.terms[(stage > 0 ? kKeys : 0) + thread];
  const float2* const terms = get(s.terms_of_head) + get(s.key[from + min(thread, count - 1)]);
  if constexpr (kAsync) {
    copy_pair(to, terms);
  } else {
    put(*to, load_written<float2>(terms));
  }
}

template <typename Pairs = PlainPairs, typename State>
__device__ __forceinline__ void attend(const weft_args& a, Shared& s, State& st, const Views&, const Tile&, int zones) {
  // fault(rows_of_no_zone_not_waited_for) instead: if (zones == 0) return;
  if (zones == 0) return end_copies();
  if (kCounts) {
#pragma unroll 1
    for (int i = threadIdx.x; i < kKeyList; i += kThreads) put(s.key_weight[i], 1.0f);
  }
  typename State::Settled settled;
  settled.rounds = 0;
  Rows<kDim> first;
  Rows<kDimV> second;
  KeyStream stream = {};
  Block block;
  block.is = 0;
#pragma unroll 1
  while (true) {
    const bool partial = block.is & kMarkPartial;
    begin_walk(s);
    __syncthreads();
    const bool mixed = partial && stream.ready > 0;
    next_block(a, s, partial ? kPartial : kFull, stream);
    const int keys = keys_of_next(stream, partial);
    block.is = (block.is & (kMarkOdd | kMarkPartial)) | (mixed ? kMarkMixed : 0) | keys * kMarkCount;
    __syncthreads();
    if (keys > 0) start_block(a, s, first, second, stage_of(block), stream.from, keys, stream.ready, mixed);
#pragma unroll 1
    while (count_of(block) > 0) {
      block.from = stream.from;
      pass_block(stream);
      finish_rows(first, s.of_keys[0], rows_of_keys<0>(s) + stage_of(block));
      finish_rows(second, s.of_keys[1], rows_of_keys<1>(s) + stage_of(block));
      if (kStages == 1) {
        // fault(rows_before_the_barrier) leaves this out
        __syncthreads();
      }
      open_block(a, s, block);
      next_block(a, s, block.is & kMarkPartial ? kPartial : kFull, stream);
      const int next = keys_of_next(stream, block.is & kMarkPartial);
      const int other = kStages > 1 ? kStageBytes - stage_of(block) : 0;
      if (kStages > 1) {
        __syncthreads();
        if (next > 0) start_block(a, s, first, second, other, stream.from, next, stream.ready, false);
      }
      compute_block<Pairs>(a, s, st, block);
      if (kStages == 1) {
        // fault(rows_over_those_at_hand) leaves this out
        __syncthreads();
        if (next > 0) start_block(a, s, first, second, other, stream.from, next, stream.ready, false);
      }
      const bool round = next > 0 && stream.from == 0;
      if (round) end_round(s, st, &settled, false);
      block.is = (block.is & kMarkPartial) | (other > 0 ? kMarkOdd : 0) | next * kMarkCount;
    }
    if (block.is & kMarkPartial) break;
    block.is |= kMarkPartial;
  }
  end_round(s, st, &settled, true);
  // fault(rows_of_no_key_not_waited_for) leaves this out
  end_copies();
  __syncthreads();
}
