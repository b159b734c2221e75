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
  block.masked = false;
  if (block.partial) {
    weigh_pairs(a, s, tile_of(s), block.from, block.count, block.mixed, block.kept);
    bool whole = true;  // are all pairs of a tile kept, or none?
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
      const bool any = __any_sync(0xFFFFFFFFu, kept_by_any(block.kept, i) != 0);
      // fault(tiles_half_kept_are_not_masked_in_gradients) value: true
      whole = whole && any == (__all_sync(0xFFFFFFFFu, all_are_kept(block.kept, i)) != 0);
      if (!any) tiles &= ~((unsigned)kMarkTile << i);
    }
    block.masked = __syncthreads_and(whole) == 0;
  }
  block.tiles = tiles;
}

/// The rows of the block of `count` keys from place `from` of the list on, `listed` of which stand there.
__device__ __forceinline__ void start_block(const weft_args& a, Shared& s, Rows<kDim>& first, Rows<kDimV>& second,
                                            int stage, int from, int count, int listed, bool mixed, int softmax) {
  const int step = step_of(s, from, listed, mixed);
  start_rows(s, first, s.of_keys[0], rows_of_keys<0>(s) + stage, from, count, step);
  start_rows(s, second, s.of_keys[1], rows_of_keys<1>(s) + stage, from, count, step);
  const int thread = (int)thread_anew();
  if (!kTransposed || thread >= kKeys) return;
  const Tile t = tile_of(s);
  const int row = row_of_key(a, t.key_begin, get(s.key[from + min(thread, count - 1)]));
  put(s.terms[(stage > 0 ? kKeys : 0) + thread], terms_of_query(a, t, softmax, row));
}

template <typename Pairs = PlainPairs, typename State>
__device__ __forceinline__ void attend(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                       int zones) {
  if (zones == 0) return;
  stage_rows(a, s, w, t);
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
  block.stage = 0;
#pragma unroll 1
  for (int sweep = 0; sweep < 2; ++sweep) {
    block.partial = sweep == 1;
    block.mixed = block.partial && stream.ready > 0;
    begin_walk(s, zones);
    __syncthreads();
    next_block(a, s, block.partial ? kPartial : kFull, stream);
    block.count = keys_of_next(stream, block.partial);
    __syncthreads();
    if (block.count > 0)
      start_block(a, s, first, second, block.stage, stream.from, block.count, stream.ready, block.mixed, st.softmax);
#pragma unroll 1
    while (block.count > 0) {
      block.from = stream.from;
      pass_block(stream);
      finish_rows(first, s.of_keys[0], rows_of_keys<0>(s) + block.stage);
      finish_rows(second, s.of_keys[1], rows_of_keys<1>(s) + block.stage);
      if (kStages == 1) {
        // fault(rows_before_the_barrier) leaves this out
        __syncthreads();
      }
      open_block(a, s, block);
      next_block(a, s, block.partial ? kPartial : kFull, stream);
      const int next = keys_of_next(stream, block.partial), other = kStages > 1 ? kStageBytes - block.stage : 0;
      if (kStages > 1) {
        __syncthreads();
        if (next > 0)
          start_block(a, s, first, second, other, stream.from, next, stream.ready, false, st.softmax);
      }
      compute_block<Pairs>(a, s, st, block);
      if (kStages == 1) {
        // fault(rows_over_those_at_hand) leaves this out
        __syncthreads();
        if (next > 0)
          start_block(a, s, first, second, other, stream.from, next, stream.ready, false, st.softmax);
      }
      const bool round = next > 0 && stream.from == 0;
      if (round) end_round(s, st, &settled, false);
      block.stage = other;
      block.count = next;
      block.mixed = false;
    }
  }
  end_round(s, st, &settled, true);
  __syncthreads();
}
