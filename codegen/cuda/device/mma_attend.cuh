#pragma once

#include "codegen/cuda/device/mma_runs.cuh"
#include "codegen/cuda/device/results.cuh"

// The softmax of a tile over the keys of one pass, as a stream of blocks of kKeys, in three sweeps: runs, whose keys are
// known by number; the list of the keys of other full zones; that of the partial ones. Of a run the rows of K and V of
// the next block arrive under all of this one, where shared memory has room for two, and there is one barrier a block.
// Else the rows of K arrive under the softmax and the second product of the block before, the rows of V under its first,
// with two barriers.

/// Blocks of a run until sums are settled.
constexpr int kBlocksBetween = kRounds * (kKeyList / kKeys);

/// Which pairs of the block count, as far as that differs from pair to pair, and which of the warp's tiles have one.
template <typename Pairs>
__device__ __forceinline__ void open_block(const weft_args& a, Shared& s, Block& block) {
  const int first = 16 * warp_of_rows(thread_anew()), rows = get(s.tile.count);
  unsigned tiles = 0;
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) tiles |= kByGroups || first + i * (16 * kRowWarps) < rows ? kMarkTile << i : 0;
  if (block.is & kMarkPartial) {
    weigh_pairs(a, s, tile_of(s), block.from, count_of(block), (block.is & kMarkMixed) != 0, block.kept);
    bool whole = true;  // are all pairs of a tile kept, or none?
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
      // fault(lanes_that_do_not_agree) value: kept_by_any(block.kept, i) != 0
      const bool any = kByGroups || __any_sync(0xFFFFFFFFu, kept_by_any(block.kept, i) != 0);
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

/// Keys in pages make a run where warps share them alone, whose registers have room for where they are. A score that does
/// not stand in the text for all pairs at once has loops that nothing is hidden under.
template <typename Pairs>
constexpr bool kInline = kStages > 1 && Pairs::kKeysAtOnce == kKeyTiles;
template <typename Pairs>
constexpr bool kRuns = (!kPaged || kKeyParts > 1) && !Pairs::kDrops && (!Pairs::kScored || kInline<Pairs>);

/// Of blocks whose pairs may be masked, those of runs by bounds are; and where their rows of V are.
__device__ __forceinline__ bool is_of_run(const Block& block) { return kRunsByBounds && (block.is & kMarkRun) != 0; }
__device__ __forceinline__ unsigned char* masked_values(Shared& s, const Block& block) {
  return v_rows(s) + (kRunsByBounds ? stage_of(block) : 0);
}

/// Pairs that are masked weigh 0, which makes a NaN of a NaN or an infinity of V in rows that do not keep it. To look for
/// those in every block that is masked takes a twentieth of a window's instructions, and a barrier a block; so O is computed
/// without, and again where it has a NaN. Of more columns registers would be spilled.
constexpr bool kTriesFirst = kColumnTiles <= 8 && kDim <= 64;

/// From the products of a block to its share of O.
template <typename Pairs>
__device__ __forceinline__ void close_block(const weft_args& a, Shared& s, State& st, Block& block) {
  if (block.is & kMarkTiles) {
    const float scale = get(s.scale);
    if constexpr (Pairs::kScored) {
      const int last = (is_of_run(block) ? kKeys : count_of(block)) - 1;
      apply_score<Pairs>(a, s, block, [&](int i) { return get(s.key[block.from + min(i, last)]); });
    }
    if (block.is & kMarkMasked) {
#pragma unroll
      for (int i = 0; i < kTilesEach; ++i) mask_scores(block, i);
    }
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
      // fault(tiles_without_a_pair_weigh) leaves this out
      if ((block.is & kMarkTile << i) == 0) continue;
      if (!kDirect) raise_maxima(st, block.scores, scale, i, i + 1);
      weigh_scores(s, st, block, scale, i, i + 1);
    }
    if constexpr (Pairs::kDrops) drop_weights<Pairs>(a, s, block);
  }
  if (block.is & kMarkStrange)
    add_strange<kValueBytes>(st.o, block.kept, is_of_run(block) ? kKeys : count_of(block), masked_values(s, block));
  each_marked(block.is, [&](auto of) { multiply_values<of.kTiles>(s, st, block); });
}

/// The same where every pair counts: nothing stands between the weights and their product, so that a warp computes
/// both at once.
template <typename Pairs, Of kOf>
__device__ __forceinline__ void close_full_block(const weft_args& a, Shared& s, State& st, Block& block) {
  const float scale = get(s.scale);
  if constexpr (Pairs::kScored) {
    const int place = place_in_run(block.is), key = get(s.key[place]), step = get(s.key[place + 1]) - key;
    if (kParts > 1) await_products<0>(block.scores, 0, kTilesEach);
    // fault(scores_of_a_run_by_the_first_key) instead: apply_score<Pairs>(a, s, block, [&](int) { return key; });
    apply_score<Pairs>(a, s, block, [&](int i) { return key + i * step; });
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    constexpr int kOfPart = (kEndOf<kOf> - kBeginOf<kOf>) / kParts;
    const int first = part * kOfPart, end = first + kOfPart;
    if (kParts > 1) await_products<kParts - 1>(block.scores, first, end);
    if (!kDirect) raise_maxima(st, block.scores, scale, first, end);
    weigh_scores(s, st, block, scale, first, end);
    start_values<kOf>(s, st, block, first, end);
  }
  await_products<0>(st.o, 0, kTilesEach);
}

template <typename Pairs = PlainPairs>
__device__ __forceinline__ void attend(const weft_args& a, Shared& s, State& st, const Views&, const Tile&, int zones) {
  // fault(copies_of_no_zone_not_waited_for) instead: if (zones == 0) return;
  if (zones == 0) return end_copies();
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
  int page = 0;  // of a run in pages, of the thread's key of the block behind the next
  Settled settled;
  settled.rounds = 0;
  Block block;
  constexpr bool kHasRuns = kRuns<Pairs>;
  unsigned sweep = kHasRuns && runs_pay(s) ? kMarkRun | kMarkOdd : 0;  // what its blocks are
#pragma unroll 1
  while (true) {
    begin_walk(s);
    block.is = sweep | (stream.ready > 0 ? kMarkMixed : 0);
    __syncthreads();
#pragma unroll 1
    while (true) {
      const bool open = count_of(block) > 0, run = kHasRuns && block.is & kMarkRun, bounded = kRunsByBounds && run && block.is & kMarkPartial;
      if (open) {
        finish_rows(keys, s.keys, k_rows(s));
        if (kPaged && run && stream.ready > 0) put_pages(a, s, stream, block.is ^ kMarkOdd, page);
        // fault(values_before_the_barrier) leaves this out
        __syncthreads();
        if (!run) {
          block.from = place_before(stream);
          start_rows(s, values, s.values, v_rows(s), block.from, count_of(block),
                     step_of(s, block.from, stream.ready + kKeys, (block.is & kMarkMixed) != 0));
          // fault(values_before_the_barrier) also: __syncthreads();
          open_block<Pairs>(a, s, block);
        } else {
          if (kStages == 1) start_values_of_run(s, values, stream, block, bounded);
          if (bounded) open_block_of_run(s, stream, block);
        }
      }
      // Here, because S is not in registers yet.
      if (run) {
        if (stream.ready == 0) next_run(a, s, stream, block);
        const bool ahead = kRunsByBounds && (block.is & kMarkAhead) != 0;
        if (kStages > 1 && kRunsByBounds && stream.ready > 0) start_next_of_run<Pairs>(a, s, keys, values, stream, block, ahead, page);
      } else {
        next_block(a, s, block.is & kMarkPartial ? kPartial : kFull, stream);
      }
      const auto start_next = [&] {
        if (run) {
          const bool ahead = kRunsByBounds && (block.is & kMarkAhead) != 0;
          if ((kStages == 1 || !kRunsByBounds) && stream.ready > 0) start_next_of_run<Pairs>(a, s, keys, values, stream, block, ahead, page);
        } else if (const int next = keys_of_next(stream, block.is & kMarkPartial); next > 0) {
          const int from = kept(stream.from);  // its address on the list would wait in a register for this branch
          start_rows(s, keys, s.keys, k_rows(s), from, next,
                     step_of(s, from, stream.ready, (block.is & kMarkMixed) != 0));
        }
      };
      if (!open) {
        // fault(steps_read_before_the_barrier) leaves this out
        __syncthreads();
        start_next();
      } else if (run && !bounded) {
        Block full;
        full.is = block.is | kMarkTiles;
        if (kFewOfRuns<Pairs> && get(s.tile.count) <= 16 * kWarps) {
          const bool has_rows = (int)(thread_anew() / 32 * 16) < get(s.tile.count);
          full.is = (block.is & ~kMarkTiles) | (has_rows ? kMarkTile : 0);
        }
        if (kCounts) full.from = place_in_run(full.is);
        // Where two more blocks of the run follow, nothing else is asked in between.
        constexpr bool kRunsOn = kStages > 1 && kRunsByBounds;
        if (kStages > 1 && !kRunsByBounds) start_next();
#pragma unroll 1
        while (true) {
          const bool all = !kFewOfRuns<Pairs> || (full.is & kMarkTiles) == kMarkTiles;
          const bool some = (full.is & kMarkTiles) != 0;
          if (all) {
            start_scores<kOfAll>(s, full);
          } else if (some) {
            start_scores<kOfFirst>(s, full);
          }
          if (kParts == 1) await_products<0>(full.scores, 0, kTilesEach);
          if (kStages == 1) {
            finish_rows(values, s.values, v_rows(s));
            __syncthreads();
            start_next();
          }
          if (all) {
            close_full_block<Pairs, kOfAll>(a, s, st, full);
          } else if (some) {
            close_full_block<Pairs, kOfFirst>(a, s, st, full);
          }
          if (!kRunsOn || full.is & kMarkAhead || stream.ready < 2 || count_of(full) % kBlocksBetween == 0) break;
          pass_block_of_run(s, stream);
          full.is = (full.is ^ kMarkOdd) + kMarkCount;
          if (kCounts) full.from = place_in_run(full.is);
          finish_rows(keys, s.keys, k_rows(s));
          if (kPaged) put_pages(a, s, stream, full.is ^ kMarkOdd, page);
          __syncthreads();
          start_next_of_run<Pairs>(a, s, keys, values, stream, full, false, page);
        }
        block.is = full.is;
      } else {
        forget(block.scores);
        each_marked(block.is, [&](auto of) { multiply_scores<of.kTiles>(s, block); });
        if (kStages == 1 || !bounded) {
          // fault(copies_waited_for_behind_the_barrier) also: __syncthreads();
          finish_rows(values, s.values, v_rows(s));
          // fault(copies_waited_for_behind_the_barrier) leaves this out
          // fault(keys_before_the_barrier) leaves this out
          __syncthreads();
        }
        if ((bounded || block.is & kMarkMasked || Pairs::kDrops) && (!kTriesFirst || get(s.walk.again))) {
          const bool found = find_strange<kValueBytes, kColumnTiles>(masked_values(s, block));
          mark(block, kMarkStrange, __syncthreads_or(found) != 0);
        }
        start_next();
        block.from = bounded ? place_in_run(block.is) : place_before(stream);  // again: a register for it would be one too many
        close_block<Pairs>(a, s, st, block);
      }
      if (kHasRuns && block.is & kMarkRun) {  // `run` would wait in memory under all products
        if (stream.ready == 0) break;
        const int blocks = count_of(block), since = blocks % kBlocksBetween;  // they are counted in place of keys
        block.is = ((block.is ^ kMarkOdd) & (kMarkRun | kMarkOdd | kMarkAhead)) + (unsigned)(since + 1) * kMarkCount;
        if (kRunsByBounds && block.is & kMarkAhead) block.is |= kMarkPartial;
        pass_block_of_run(s, stream);
        if (blocks > 0 && since == 0) end_round(s, st, &settled, false, kRounds);
        continue;
      }
      const int next = keys_of_next(stream, block.is & kMarkPartial);
      if (next > 0) {
        if (count_of(block) > 0) mark(block, kMarkMixed, false);
        block.is = block.is % kMarkCount + (unsigned)next * kMarkCount;
        pass_block(stream);
      }
      const bool last = next == 0 && block.is & kMarkPartial;
      if (last || (next > 0 && stream.from == 0)) end_round(s, st, &settled, last);
      if (next == 0) break;
    }
    if (kHasRuns && block.is & kMarkRun) {
      stream = {};
      sweep = 0;
      if (!kRunsByBounds || count_of(block) == 0) continue;  // there was no run
      const int before = get(s.walk.zones);
      __syncthreads();
      const int left = close_ranks(s, lists_of(a, s), before);
      if (left > 0) continue;
      if (settled.rounds == 0) break;
    } else if (block.is & kMarkPartial) {
      break;
    }
    sweep = kMarkPartial;  // the last one closes the sums
  }
  // fault(copies_of_no_key_not_waited_for) leaves this out
  end_copies();
}

/// Is O to be computed again, from the zones on, of the softmax whose tables `pass` then is?
__device__ __forceinline__ bool is_wanted_again(Shared& s, const State& st, const i64*& pass) {
  if (!kTriesFirst) return false;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
#pragma unroll
    for (int c = 0; c < kColumnTiles; ++c) sum += (st.o[i][c][0] + st.o[i][c][1]) + (st.o[i][c][2] + st.o[i][c][3]);
  }
  const bool again = get(s.walk.again) != 0;
  pass = get(s.pass);
  const bool found = __syncthreads_or(sum != sum) != 0;
  if (threadIdx.x == 0) put(s.walk.again, 1);
  return found && !again;
}
