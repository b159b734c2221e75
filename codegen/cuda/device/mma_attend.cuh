#pragma once

#include "codegen/cuda/device/results.cuh"

// The softmax of a tile over the keys of one pass, as a stream of blocks of kKeys, in three sweeps: runs, which are the
// whole blocks of full zones whose keys are known by number; the list of the keys that full zones have left; that of the
// partial ones. Of a run the rows of K and V of the next block arrive under all of this one, where shared memory has room
// for two, and there is one barrier a block. Else the rows of K arrive under the softmax and the second product of the
// block before, the rows of V under its first, with two barriers.

/// Blocks of a run until sums are settled.
constexpr int kBlocksBetween = kRounds * (kKeyList / kKeys);

/// A run computes all tiles of 16 rows, also those that have none.
__device__ __forceinline__ bool runs_pay(Shared& s) { return get(s.keys.aligned) && get(s.tile.count) > kRows / 2; }

/// The next zone that has whole blocks of keys known by number: the first key goes to stream.from, how many blocks to
/// stream.ready; how many branches keep the keys of its blocks, behind those of the blocks at hand.
__device__ __forceinline__ void next_run(const weft_args& a, Shared& s, KeyStream& stream) {
  const Lists lists = lists_of(a, s);
  const int zones = get(s.walk.zones);
  int number = get(s.walk.next);
  int step = 0;
#pragma unroll 1
  for (; stream.ready == 0 && number < zones; ++number) {
    const Zone zone = get(lists.zone[number]);
    if ((zone.kind & (kFull | kUnasked)) != (kFull | kUnasked)) continue;
    stream.from = zone.begin;
    // fault(part_of_a_block_taken_for_a_whole) value: (zone.end - zone.begin + kKeys - 1) / zone.step / kKeys
    stream.ready = ((zone.end - zone.begin - 1) / zone.step + 1) / kKeys;
    step = zone.step;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    put(s.walk.next, number);
    put(s.walk.run.step, step);
    // fault(keys_of_runs_listed_again) leaves this out
    if (stream.ready > 0) {
      const i64 behind = stream.from + (i64)stream.ready * (kKeys * step);
      put(lists.zone[number - 1].begin, (int)min(behind, (i64)get(lists.zone[number - 1].end)));
    }
  }
  if (kCounts && stream.ready > 0 && threadIdx.x < kKeys) {
    const int terms = (int)word(get(s.pass) + kTerms);
    const int key = stream.from + (int)threadIdx.x * step;
    put(s.key_weight[2 * kKeys + threadIdx.x], (float)weight_of(a, s, tile_of(s), terms, key));
  }
  if (kStages > 1) __syncthreads();
}

/// Of a run: the first key of the block behind which the stream is.
__device__ __forceinline__ int key_before(Shared& s, const KeyStream& stream) {
  return (int)((unsigned)stream.from - (unsigned)(kKeys * get(s.walk.run.step)));
}
__device__ __forceinline__ void pass_block_of_run(Shared& s, KeyStream& stream) {
  stream.from = (int)((unsigned)stream.from + (unsigned)(kKeys * get(s.walk.run.step)));
  --stream.ready;
}

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
    if constexpr (Pairs::kScored)
      apply_score<Pairs>(a, s, block, [&](int i) { return get(s.key[block.from + min(i, count_of(block) - 1)]); });
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
  if (block.is & kMarkStrange)
    add_strange<kValueBytes>(st.o, block.kept, count_of(block), v_rows(s));
  if ((block.is & kMarkTiles) == kMarkTiles) {
    multiply_values<true>(s, st, block);
  } else if (block.is & kMarkTiles) {
    multiply_values<false>(s, st, block);
  }
}

/// The rows of K of a run's next block, and what its scores and weights ask of its keys; where there is room, those of V,
/// too, and nobody waits for them before the turn of that block.
template <typename Pairs>
__device__ __forceinline__ void start_next_of_run(Shared& s, Rows<kDim>& keys, Rows<kDimV>& values,
                                                  const KeyStream& stream, const Block& block) {
  const int step = get(s.walk.run.step), stage = kStages > 1 ? kStageBytes - stage_of(block) : 0;
  const unsigned thread = thread_anew();  // registers that keep what follows from it would be too many
  start_run(keys, source_of(s.keys), k_rows(s) + stage, stream.from, step, thread);
  if (kStages > 1) start_run(values, source_of(s.values), v_rows(s) + stage, stream.from, step, thread);
  if (Pairs::kScored && thread == 0) {
    put(s.counts[block.is & kMarkOdd ? 0 : 2], stream.from);
    put(s.counts[block.is & kMarkOdd ? 1 : 3], step);
  }
  if (kCounts && thread < kKeys)
    put(s.key_weight[(block.is & kMarkOdd ? 0 : kKeys) + thread], get(s.key_weight[2 * kKeys + thread]));
}

/// The same where every pair counts: nothing stands between the weights and their product, so that a warp computes
/// both at once.
template <typename Pairs>
__device__ __forceinline__ void close_full_block(const weft_args& a, Shared& s, State& st, Block& block) {
  const float scale = get(s.scale);
  if constexpr (Pairs::kScored) {
    const int place = block.is & kMarkOdd ? 2 : 0, key = get(s.counts[place]), step = get(s.counts[place + 1]);
    // fault(scores_of_a_run_by_the_first_key) instead: apply_score<Pairs>(a, s, block, [&](int) { return key; });
    apply_score<Pairs>(a, s, block, [&](int i) { return key + i * step; });
  }
  if (!kDirect) raise_maxima(st, block.scores, scale);
  weigh_scores(s, st, block, scale);
  multiply_values<true>(s, st, block);
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
  // Where a full zone's keys are known by number, its whole blocks need no list; what fills none stays for the next sweep.
  // Pages are known of the keys on the list alone. A score that does not stand in the text for all pairs at once has loops that nothing is hidden under.
  constexpr bool kInline = kStages > 1 && Pairs::kKeysAtOnce == kKeyTiles;
  constexpr bool kRuns = !kPaged && !Pairs::kDrops && (!Pairs::kScored || kInline);
  if (kRuns) __syncthreads();
#pragma unroll 1
  for (int sweep = kRuns && runs_pay(s) ? 0 : 1; sweep < 3; ++sweep) {
    begin_walk(s, zones);
    block.is = sweep == 0 ? kMarkRun | kMarkOdd : (sweep == 2 ? kMarkPartial : 0) | (stream.ready > 0 ? kMarkMixed : 0);
    __syncthreads();
#pragma unroll 1
    while (true) {
      const bool open = count_of(block) > 0, run = kRuns && block.is & kMarkRun;
      if (open) {
        finish_rows(keys, s.keys, k_rows(s));
        // fault(values_before_the_barrier) leaves this out
        __syncthreads();
        if (!run) {
          block.from = place_before(stream);
          start_rows(s, values, s.values, v_rows(s), block.from, count_of(block),
                     step_of(s, block.from, stream.ready + kKeys, (block.is & kMarkMixed) != 0));
          // fault(values_before_the_barrier) also: __syncthreads();
          open_block<Pairs>(a, s, block);
        } else if (kStages == 1) {
          start_run(values, source_of(s.values), v_rows(s), key_before(s, stream), get(s.walk.run.step), thread_anew());
        }
      }
      // Here, because S is not in registers yet.
      if (run) {
        if (stream.ready == 0) next_run(a, s, stream);
      } else {
        next_block(a, s, block.is & kMarkPartial ? kPartial : kFull, stream);
      }
      const auto start_next = [&] {
        if (run && stream.ready > 0) {
          start_next_of_run<Pairs>(s, keys, values, stream, block);
        } else if (const int next = keys_of_next(stream, block.is & kMarkPartial); !run && next > 0) {
          start_rows(s, keys, s.keys, k_rows(s), stream.from, next,
                     step_of(s, stream.from, stream.ready, (block.is & kMarkMixed) != 0));
        }
      };
      if (!open) {
        // fault(steps_read_before_the_barrier) leaves this out
        __syncthreads();
        start_next();
      } else if (run) {
        Block full;
        full.is = block.is | kMarkTiles;
        if (kCounts) full.from = block.is & kMarkOdd ? kKeys : 0;  // on the list of weights
        if (kStages > 1) start_next();
        multiply_scores<true>(s, full);
        if (kStages == 1) {
          finish_rows(values, s.values, v_rows(s));
          __syncthreads();
          start_next();
        }
        close_full_block<Pairs>(a, s, st, full);
      } else {
        forget(block.scores);
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
          mark(block, kMarkStrange, __syncthreads_or(find_strange<kValueBytes, kColumnTiles>(v_rows(s), false)) != 0);
        start_next();
        block.from = place_before(stream);  // again, because a register for it would be one too many
        close_block<Pairs>(a, s, st, block);
      }
      if (run) {
        if (stream.ready == 0) break;
        const int since = count_of(block) % kBlocksBetween;  // blocks are counted in place of keys
        block.is = ((block.is ^ kMarkOdd) & (kMarkRun | kMarkOdd)) + (unsigned)(since + 1) * kMarkCount;
        pass_block_of_run(s, stream);
        if (open && since == 0) end_round(s, st, &settled, false, kRounds);
        continue;
      }
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
    if (kRuns && sweep == 0) stream = {};
  }
}
