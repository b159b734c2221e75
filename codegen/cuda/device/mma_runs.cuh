#pragma once

#include "codegen/cuda/device/mma_softmax.cuh"

// Runs: blocks of keys that are known by number, from an address on and a step apart, and need no list. First come the
// whole blocks of full zones, of which every pair counts. Then what is left of these and the partial zones in which
// bounds alone decide: there each row keeps an interval of the run's keys, and the last block may have fewer than kKeys.

/// Of more columns the text of runs by bounds leaves the caches of an SM, and registers are too few, unless warps have but
/// a share of the keys.
constexpr bool kRunsByBounds = kKeyParts > 1 || (kDim <= 64 && kColumns <= 64);

/// Where no warp has rows in its second tile, runs may compute the first alone, if there are registers for the code. Not where
/// pairs have a score: of two codes for it, what becomes an FMA may differ, and with it the bits of texts.
template <typename Pairs>
constexpr bool kFewOfRuns = kFewRows && !Pairs::kScored && kRunsByBounds && kStages > 1 && kWarps > 2;

/// Texts for few rows and for many agree on this, so that a row has the same bits by both. Where it is computed as a whole, a
/// run computes tiles of 16 rows that have none, which is still better than lists.
__device__ __forceinline__ bool runs_pay(Shared& s) {
  return kRunsByBounds || (get(s.keys.aligned) && get(s.tile.count) > kRows / 2);
}

/// Of the run at hand: how many blocks and keys it has; and are there keys that runs of whole blocks left?
__device__ __forceinline__ void set_run(Shared& s, int step, int blocks, int keys, bool left) {
  put(s.walk.run.step, step);
  put(s.walk.zone, make_int4(blocks, keys, left ? 1 : 0, kEmpty));
}
/// Of the block before which so many are left: its first key's number in the run, and how many keys it has.
__device__ __forceinline__ int first_in_run(Shared& s, int left) { return (get(s.walk.zone).x - left) * kKeys; }
__device__ __forceinline__ int count_in_run(Shared& s, int first) { return min(get(s.walk.zone).y - first, kKeys); }

/// Which keys of [begin, end) does the thread's row keep, as numbers in a run? To s.meets. False where one interval does
/// not say it; where branches are counted, each key of it must be kept by all terms that hit it. Of sets conditions hold.
__device__ __forceinline__ bool meet_run(const weft_args& a, Shared& s, int begin, int end, int step, bool of_sets) {
  const unsigned row = thread_anew();
  if (row >= kRows) return true;
  const Tile t = tile_of(s);
  const i64* const pass = get(s.pass);
  const int terms = (int)word(pass + kTerms), x = get(s.x[row]);
  const u64 met_bits = kHasRowBits ? get(s.bits[row]) : 0;
  bool is_one = true, is_first = true;
  int lo = begin, hi = begin;
  // Of branches that are not counted those terms come first that hit every key: what others keep must lie in there.
#pragma unroll 1
  for (int i = 0; i < (kCounts || terms == 1 ? terms : 2 * terms); ++i) {
    const bool again = i >= terms;
    const int number = again ? i - terms : i;
    const Term& term = terms_of(s)[number];
    if (!reaches(get(term.keys), begin, end)) continue;
    const bool conditional = (kConditions > 0 && !of_sets && get(term.conditions) != 0) || (kHasFilters && get(term.filters) != 0);
    if (!kCounts && again == (!conditional && get(term.rate) == step)) continue;
    const i64* const words = pass + kTermsAt + number * kTermWords;
    Reach keys = reach_of(a, s, t, words, x, 0);
    narrow_reach(a, s, t, term, words, x, keys);
    const Bits bits = bits_of(words);
    const bool met = ((bits.need & ~met_bits) | (bits.miss & met_bits)) == 0 && keys.fails == 0;
    const int from = max(keys.lo, begin), to = min(keys.hi, end);
    const bool none = !met || from >= to;
    bool agrees = true;
    if (kCounts) {
      const int segment = get(term.segment);
      // Behind a border others of its keys are hit.
      const bool crosses = segment > 0 && multiple_below_key(begin, segment) != multiple_below_key(end - 1, segment);
      // fault(terms_of_a_run_keep_other_keys) leaves this out
      agrees = !crosses && (is_first || (none ? lo == hi : lo == from && hi == to));
    } else if (!none) {
      // fault(keys_between_two_terms_are_kept) leaves this out
      agrees = again ? from >= lo && to <= hi : lo == hi || (from <= hi && to >= lo);
    }
    is_one = is_one && agrees;
    if (!none && !again) {
      lo = lo == hi ? from : min(lo, from);
      hi = max(hi, to);
    }
    is_first = false;
  }
  // fault(rows_of_a_run_keep_one_more) value: right + 1
  const int behind = keys_in(hi - begin, step);
  put(s.meets.lo[row], keys_in(lo - begin, step));
  put(s.meets.hi[row], behind);
  return is_one;
}

/// Of a zone the last key.
__device__ __forceinline__ int last_key(const Zone& zone) {
  const int keys = zone.end - 1 - zone.begin;
  return zone.begin + (kHasStreams ? quotient((unsigned)keys, zone.step) * zone.step : keys);
}

/// Can all rows keep the same of all terms? Where a term wants rows that not all of the tile are, they do not.
__device__ __forceinline__ bool rows_may_agree(const weft_args& a, Shared& s, int begin, int end) {
  if (!kCounts || !kHasRowBits) return true;
  const i64* const pass = get(s.pass);
  const int terms = (int)word(pass + kTerms);
#pragma unroll 1
  for (int i = 0; i < terms; ++i) {
    const Term& term = terms_of(s)[i];
    if (!reaches(get(term.keys), begin, end)) continue;
    const Bits bits = bits_of(pass + kTermsAt + i * kTermWords);
    if (((bits.need & ~s.tile.every) | (bits.miss & s.tile.any)) != 0) return false;
  }
  return true;
}

// In mma_sets.cuh, where conditions keep sets of keys.
__device__ __forceinline__ bool open_set(const weft_args& a, Shared& s, const Lists& lists, int number, Zone& zone, int& known);
__device__ __forceinline__ int join_sets(const weft_args& a, Shared& s, const Lists& lists, int number, int zones, Zone& run);

/// The zones from `number` on that go on in the same steps, as a run; which of them it ends with, or none. `run` is the first.
__device__ __forceinline__ int join_zones(const weft_args& a, Shared& s, const Lists& lists, int number, int zones,
                                          Zone& run) {
  if (kHasSets && run.kind & kOfSets) return join_sets(a, s, lists, number, zones, run);
  if (!rows_may_agree(a, s, run.begin, run.end)) return -1;
  int last = number;
  Zone longest = run;
#pragma unroll 1
  for (int next = number + 1; next < zones; ++next) {
    const Zone zone = get(lists.zone[next]);
    if (zone.begin >= zone.end) continue;
    if ((zone.kind & kUnasked) == 0 || zone.step != run.step || (i64)last_key(longest) + run.step != zone.begin) break;
    longest.end = zone.end;
    last = next;
  }
#pragma unroll 1
  for (bool joined = last > number; true; joined = false) {
    const Zone tried = joined ? longest : run;
    __syncthreads();
    if (__syncthreads_and(meet_run(a, s, tried.begin, tried.end, tried.step, false))) {
      run = tried;
      return joined ? last : number;
    }
    if (!joined) return -1;
  }
}

/// Of keys in pages the list says where they are, of each block of a run as of others. The page of the thread's key of the
/// block behind the next is asked for under the one at hand, …
__device__ __forceinline__ int page_of_key(const weft_args& a, Shared& s, int number, int key) {
  if (threadIdx.x >= kKeys || number >= get(s.walk.zone).y) return 0;
  return page_number(a, get(s.tile.b), divided(key, a.of_page));
}
/// … and put down before the next one's barrier. `stream` is before that block.
__device__ __forceinline__ void put_pages(const weft_args& a, Shared& s, const KeyStream& stream, unsigned marks, int page) {
  const unsigned thread = thread_anew();
  if (thread >= kKeys) return;
  const int key = stream.from + (int)thread * get(s.walk.run.step), place = place_in_run(marks) + (int)thread;
  put(s.page[place], page);
  put(s.in_page[place], key - divided(key, a.of_page) * (int)a.page_size);
}

/// Does a zone in which bounds decide end where this one begins, or begin where it ends?
__device__ __forceinline__ bool goes_on(const Lists& lists, int number, int zones, const Zone& zone) {
  const Zone before = get(lists.zone[max(number - 1, 0)]), behind = get(lists.zone[min(number + 1, zones - 1)]);
  const auto joins = [&](const Zone& other) {
    return (other.kind & kUnasked) != 0 && (other.kind & kFull) == 0 && other.begin < other.end && other.step == zone.step;
  };
  return (number > 0 && joins(before) && last_key(before) + zone.step == zone.begin) ||
         (number + 1 < zones && joins(behind) && last_key(zone) + zone.step == behind.begin);
}

/// The next run: the first key goes to stream.from, how many blocks to stream.ready; how many branches keep the keys of
/// its blocks, behind those of the blocks at hand. Runs in which bounds decide follow the others.
__device__ __forceinline__ void next_run(const weft_args& a, Shared& s, KeyStream& stream, Block& block) {
  const Lists lists = lists_of(a, s);
  const int zones = get(s.walk.zones);
  int number = get(s.walk.next), keys = 0;
  int known = kHasSets ? get(s.walk.known) : kUnknown;
  bool bounded = (block.is & kMarkAhead) != 0, left = get(s.walk.zone).z != 0, of_sets = false;
  Zone zone = {0, 0, 0, kEmpty};
#pragma unroll 1
  for (; stream.ready == 0; ++number) {
    if (number == zones) {
      if (!kRunsByBounds || bounded || !left) break;
      bounded = true;
      number = 0;
      known = kUnknown;
    }
    zone = get(lists.zone[number]);
    of_sets = kHasSets && (zone.kind & kOfSets) != 0;
    if ((zone.kind & (kUnasked | kOfSets)) == 0 || zone.begin >= zone.end) continue;
    if (!bounded && (zone.kind & kFull) == 0) {
      left = true;
      continue;
    }
    if (of_sets && !open_set(a, s, lists, number, zone, known)) continue;
    if (kRunsByBounds && bounded) {
      const int last = join_zones(a, s, lists, number, zones, zone);
      if (last < 0) continue;
      if (threadIdx.x == 0) {
#pragma unroll 1
        for (int i = number; i <= last; ++i) put(lists.zone[i].begin, min(get(lists.zone[i].end), zone.end));
      }
      if (last > number) known = kUnknown;
      number = last;
      keys = keys_in(zone.end - zone.begin, zone.step);
      stream.ready = (keys - 1) / kKeys + 1;
    } else {
      // fault(part_of_a_block_taken_for_a_whole) value: (zone.end - zone.begin + kKeys - 1) / zone.step / kKeys
      stream.ready = keys_in(zone.end - zone.begin, zone.step) / kKeys;
      keys = stream.ready * kKeys;
      // A block between such as bounds decide is of their run: a run of its own costs more than its mask.
      if (kRunsByBounds && !of_sets && stream.ready == 1 && goes_on(lists, number, zones, zone)) stream.ready = keys = 0;
      left = left || zone.begin + (i64)keys * zone.step < zone.end;
    }
    stream.from = zone.begin;
  }
  mark(block, kMarkAhead, bounded);
  __syncthreads();
  if (threadIdx.x == 0) {
    put(s.walk.next, of_sets && stream.ready > 0 ? number - 1 : number);  // there may be more
    if (kHasSets) put(s.walk.known, of_sets ? known : kUnknown);
    set_run(s, zone.step, stream.ready, keys, left);
    // fault(keys_of_runs_listed_again) leaves this out
    if (stream.ready > 0 && !bounded) {
      const i64 behind = stream.from + (i64)keys * zone.step;
      put(lists.zone[number - 1].begin, (int)min(behind, (i64)get(lists.zone[number - 1].end)));
    }
  }
  if (kCounts && stream.ready > 0 && threadIdx.x < kKeys) {
    const int terms = (int)word(get(s.pass) + kTerms);
    const int key = stream.from + min((int)threadIdx.x, keys - 1) * zone.step;
    put(s.key_weight[2 * kKeys + threadIdx.x], (float)weight_of(a, s, tile_of(s), terms, key));
  }
  if constexpr (kPaged) {
    __syncthreads();
    const int number = (int)threadIdx.x;
    if (stream.ready > 0)
      put_pages(a, s, stream, block.is ^ kMarkOdd, page_of_key(a, s, number, stream.from + number * zone.step));
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

/// Which pairs of a block rows keep by their bounds, and which of the warp's tiles have one. No other warp is asked.
__device__ __forceinline__ void open_block_of_run(Shared& s, const KeyStream& stream, Block& block) {
  const int first_of_warp = first_in_run(s, stream.ready + 1) + first_key_of_warp(threadIdx.x), lane = threadIdx.x % 4;
  block.kept = {};
  block.is &= ~(kMarkTiles | kMarkMasked);
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
    const int row = row_of(2 * i + lane / 2);
    // fault(bounds_of_the_block_before) value: right + kKeys
    const int below = (lane % 2 == 0 ? get(s.meets.lo[row]) : get(s.meets.hi[row])) - first_of_warp;
    unsigned bits = kAllBits;
    bool any = true;
    // fault(ends_in_a_runs_block_are_behind_it) value: __all_sync(0xFFFFFFFFu, lane % 2 == 0 ? below <= 0 : below > 0)
    const bool whole = __all_sync(0xFFFFFFFFu, lane % 2 == 0 ? below <= 0 : below >= kKeysEach);
    if (kFewRows && row_of(2 * i) - (int)(threadIdx.x % 32) / 4 >= get(s.tile.count)) continue;  // it has no row
    if (!whole) {
      bits = bits_between(min(max(below, 0), kKeysEach));
      any = kByGroups || __any_sync(0xFFFFFFFFu, bits != 0);
      // fault(rows_of_a_run_are_not_masked) leaves this out
      if (any) block.is |= kMarkMasked;
    }
    if (any) block.is |= kMarkTile << i;
    block.kept.digits[0][i] = bits;
  }
}

/// Of a run's block of `count` keys, number `key` and each `step` behind the one before; `place`: where the list has them.
template <int kOfRow>
__device__ __forceinline__ void start_block_of_run(Shared& s, Rows<kOfRow>& rows, const Source& of, unsigned char* to,
                                                   int key, int step, int count, bool aligned, unsigned thread, int place) {
  if (kPaged) return start_rows(s, rows, of, to, place, count, 0);
  const Source source = source_of(of);
  if (kRunsByBounds && !aligned) {
    copy_each<kOfRow>(to, count, [&](int i) { return source.base + times(key + i * step, source.step); });
  } else if (kRunsByBounds && count < kKeys) {
    start_run<false>(rows, source, to, key, step, count, thread);
  } else {
    start_run<true>(rows, source, to, key, step, count, thread);
  }
}

/// The rows of K of a run's next block, and what its scores and weights ask of its keys; where there is room, those of V,
/// too, and nobody waits for them before the turn of that block.
template <typename Pairs>
__device__ __forceinline__ void start_next_of_run(const weft_args& a, Shared& s, Rows<kDim>& keys, Rows<kDimV>& values,
                                                  const KeyStream& stream, const Block& block, bool bounded, int& page) {
  const bool aligned = get(s.keys.aligned) != 0;
  const int step = get(s.walk.run.step), stage = kStages > 1 ? kStageBytes - stage_of(block) : 0;
  const int count = bounded ? count_in_run(s, first_in_run(s, stream.ready)) : kKeys;
  const unsigned thread = thread_anew();  // registers that keep what follows from it would be too many
  const int listed = place_in_run(block.is ^ kMarkOdd), place = listed + (int)thread;
  start_block_of_run(s, keys, s.keys, k_rows(s) + stage, stream.from, step, count, aligned, thread, listed);
  if (kStages > 1)
    start_block_of_run(s, values, s.values, v_rows(s) + stage, stream.from, step, count, aligned, thread, listed);
  if constexpr (kPaged) {
    const int behind = kKeys + (int)thread;
    page = page_of_key(a, s, first_in_run(s, stream.ready) + behind, stream.from + behind * step);
  }
  // A score may read what the caller has of the key: there is none behind the last.
  if (Pairs::kScored && thread < kKeys) put(s.key[place], stream.from + min((int)thread, count - 1) * step);
  if (kCounts && thread < kKeys) put(s.key_weight[place], get(s.key_weight[2 * kKeys + thread]));
}

/// The rows of V of the block at hand, where there is room for one block.
__device__ __forceinline__ void start_values_of_run(Shared& s, Rows<kDimV>& values, const KeyStream& stream,
                                                    const Block& block, bool bounded) {
  const int count = bounded ? count_in_run(s, first_in_run(s, stream.ready + 1)) : kKeys;
  start_block_of_run(s, values, s.values, v_rows(s), key_before(s, stream), get(s.walk.run.step), count,
                     get(s.keys.aligned) != 0, thread_anew(), place_in_run(block.is));
}
