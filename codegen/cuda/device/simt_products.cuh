#pragma once

#include "codegen/cuda/device/settle.cuh"
#include "codegen/cuda/device/simt_stage.cuh"

// The two products of a block of keys and the softmax between them, in f32 on the plain lanes.

/// The thread's part of O. What is needed once a block stands in shared memory: m and l, see maxima_at and sums_at.
struct State {
  float o[kRowsEach][kColumnsEach];
};

using Scores = float[kRowsEach][kKeysEach];

/// What weights are measured from, in units of log 2, for four of the thread's rows: the largest score so far, but
/// for 8.
__device__ __forceinline__ float* maxima_at(Shared& s, int r) { return &s.maxima[row_of(r, thread_anew())]; }

/// Sums of weights of four rows over the thread's own keys.
__device__ __forceinline__ float* sums_at(Shared& s, int r) { return &s.sums[(r / 4 * kThreads + thread_anew()) * 4]; }

using OfRows = float[kRowsEach];
__device__ __forceinline__ void load_maxima(Shared& s, OfRows& m) {
  // fault(misaligned_maxima) instead:
  //   for (int r = 0; r < kRowsEach; r += 4) unpack(&m[r], load_shared<float4>(maxima_at(s, r) + 1));
#pragma unroll
  for (int r = 0; r < kRowsEach; r += 4) unpack(&m[r], load_shared<float4>(maxima_at(s, r)));
}
__device__ __forceinline__ void load_sums(Shared& s, OfRows& l) {
#pragma unroll
  for (int r = 0; r < kRowsEach; r += 4) unpack(&l[r], load_shared<float4>(sums_at(s, r)));
}
__device__ __forceinline__ void store_sums(Shared& s, const OfRows& l) {
#pragma unroll
  for (int r = 0; r < kRowsEach; r += 4)
    store_shared(sums_at(s, r), make_float4(l[r], l[r + 1], l[r + 2], l[r + 3]));
}
/// By one lane of a row for all; sync_rows() makes it seen.
__device__ __forceinline__ void store_maxima(Shared& s, const OfRows& m) {
  if (lane_of_row() != 0 || warp_of_columns() != 0) return;
#pragma unroll
  for (int r = 0; r < kRowsEach; r += 4)
    store_shared(maxima_at(s, r), make_float4(m[r], m[r + 1], m[r + 2], m[r + 3]));
}

__device__ __forceinline__ void clear(Shared& s, State& st) {
  OfRows m, l;
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    m[r] = kLowest;
    l[r] = 0;
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) st.o[r][c] = 0;
  }
  store_maxima(s, m);
  store_sums(s, l);
  sync_rows();
}

/// What a thread has settled of its sums: m and l of its rows, and O.
struct Settled {
  float sums[(kColumnsEach + 2) * kRowsEach];
  int rounds;
};

/// Columns turn, so that the code stands once for all of them.
__device__ __forceinline__ void settle(Shared& s, State& st, Settled& to, bool begun, bool last) {
  float* const settled = to.sums;
  OfRows m, l, factor;
  load_maxima(s, m);
  load_sums(s, l);
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    // fault(sums_of_lanes_not_scaled) value: begun ? 1 : 0
    factor[r] = begun ? exp2_approx(settled[r] - m[r]) : 0;
    settled[r] = m[r];
    l[r] = settle_sum(settled[kRowsEach + r], l[r], factor[r], begun, last);
  }
  store_sums(s, l);
#pragma unroll 1
  for (int c = 0; c < kColumnsEach; ++c) {
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
      const float left = settle_sum(settled[(c + 2) * kRowsEach + r], st.o[r][0], factor[r], begun, last);
#pragma unroll
      for (int i = 0; i < kColumnsEach - 1; ++i) st.o[r][i] = st.o[r][i + 1];
      st.o[r][kColumnsEach - 1] = left;
    }
  }
}

/// The order of products inside a step: as the next row or column begins with the operand that the last one ended with,
/// it is still at hand, and registers meet less often in one bank (docs/how-the-cuda-kernel-works.md has figures).
__device__ __forceinline__ int there_and_back(int i, int turn, int count) { return turn % 2 == 0 ? i : count - 1 - i; }

/// Where the sums of S start: see rows_of_thread.
__device__ __forceinline__ void start_scores(Shared& s, Scores& scores) {
#pragma unroll
  for (int j = 0; j < kKeysEach; j += 4) {
    float start[4];
    unpack(start, load_shared<float4>(&s.start[key_of(j)]));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r) scores[r][j + i] = start[i];
    }
  }
}

/// Steps [first, end) of a chunk of columns; `of_rows` and `of_keys`: where the thread's first row and key stand.
__device__ __forceinline__ void add_scores(const float* of_rows, const float* of_keys, int first, int end,
                                           Scores& scores) {
#pragma unroll
  for (int c = first; c < end; ++c) {
    float rows[kRowsEach], keys[kKeysEach];
#pragma unroll
    for (int r = 0; r < kRowsEach; r += 4)
      unpack(&rows[r], load_shared<float4>(of_rows + c * kRows + (row_of(r) - row_of(0))));
#pragma unroll
    for (int j = 0; j < kKeysEach; j += 4)
      unpack(&keys[j], load_shared<float4>(of_keys + c * kKeys + (key_of(j) - key_of(0))));
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int i = 0; i < kKeysEach; ++i) {
        const int j = there_and_back(i, r, kKeysEach);
        scores[r][j] = __fmaf_rn(rows[r], keys[j], scores[r][j]);
      }
    }
  }
}

// What is under way is stored when so many steps of a chunk are left: behind it, and before the barrier, there is work
// that hides how long that takes. Steps with more columns are longer.
constexpr int kLastSteps = kColumnsEach > 12 ? 1 : 2;

/// S += Q K^T; the first chunk is staged. Keys behind the block's last repeat it. A warp whose rows keep nothing only
/// helps to stage.
template <bool kBusy>
__device__ __forceinline__ void multiply_scores(Shared& s, const Rows& rows, bool aligned, ChunkOfColumns next,
                                                Scores& scores) {
  const int of_rows = kept(4 * row_of(0)), of_keys = kept(4 * (kDepth * kRows + key_of(0)));
  const Places places = places_of_columns();
  int half = 0, column = 0;  // in bytes, as what is added to an address
  // fault(barrier_before_scores) leaves this out
  __syncthreads();
  if (kBusy) start_scores(s, scores);
#pragma unroll 1
  for (int chunk = 1;; ++chunk) {
    // The last turn stages its own chunk again: nobody reads it, and the loop has no branch.
    const bool last = chunk == kChunks;
    column += last ? 0 : kDepth * kBytes<kStored>;
    if (aligned) next = load_columns(rows, column);
    const float* const rows_at = beyond(s.stage, of_rows + half);
    const float* const keys_at = beyond(s.stage, of_keys + half);
    if (kBusy) add_scores(rows_at, keys_at, 0, kDepth - kLastSteps, scores);
    half = kStageHalf * 4 - half;
    // fault(chunk_over_the_one_at_hand) instead: store_columns(s, places, kStageHalf * 4 - half, next);
    store_columns(s, places, half, next);
    if (kBusy) add_scores(rows_at, keys_at, kDepth - kLastSteps, kDepth, scores);
    if (!aligned) stage_each_column(beyond(s.stage, half), rows, last ? chunk - 1 : chunk);
    // fault(barrier_behind_scores) leaves this out
    __syncthreads();
    if (last) break;
  }
}

/// Which pairs of a block are kept, while the products need the registers: word i of the thread, where P will stand.
__device__ __forceinline__ unsigned* kept_at(Shared& s, int i) {
  static_assert(kPlanes * kBitWords * kColumnWarps <= kPartKeys);
  return (unsigned*)part_of_rows(s) + (warp_of_columns() * (kPlanes * kBitWords) + i) * 32 + threadIdx.x % 32;
}

/// Returns whether some pair of the warp is kept.
__device__ __forceinline__ bool park_kept(Shared& s, const Kept& kept) {
  unsigned some = 0;
#pragma unroll
  for (int i = 0; i < kPlanes * kBitWords; ++i) {
    const unsigned bits = kept.digits[i / kBitWords][i % kBitWords];
    store_shared(kept_at(s, i), bits);
    some |= bits;
  }
  return __any_sync(0xFFFFFFFFu, some != 0);
}

/// The logarithm to base 2 of how many branches keep a pair whose digits these end with.
__device__ __forceinline__ float weight_of_pair(const unsigned (&digits)[kPlanes]) {
  if (!kCounts) return digits[0] & 1 ? 0 : -infinity();
  unsigned count = 0;
#pragma unroll
  for (int d = 0; d < kPlanes; ++d) count |= (digits[d] & 1) << d;
  // fault(multiplicity_ignored) instead: return count != 0 ? 0 : -infinity();
  return log2_approx((float)count);
}

/// Direct weights times the number of branches that keep the pair; or scores as the softmax wants them, where a full
/// block of plain products does not already have them: in units of log 2 with the logarithm of their weight, and minus
/// infinity for pairs that are not kept. Loops that are not unrolled turn the registers by one, because an index would
/// put them on the stack.
template <typename Pairs>
__device__ __forceinline__ void finish_scores(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                              bool partial, Scores& scores) {
  constexpr float kToBaseTwo = 1.44269504088896341f;
  const float scale = (float)a.scale;
#pragma unroll(Pairs::kKeysAtOnce)
  for (int j = 0; j < kKeysEach; ++j) {
    const int number = min(key_of(j), count - 1);
    const int k = get(s.key[from + number]);
    const float of_key = key_of(j) < count ? weight_of_key(s, from + number) : -infinity();
    unsigned digits[kPlanes] = {};
    if (partial) {
#pragma unroll
      for (int d = 0; d < kPlanes; ++d)
        digits[d] = load_shared<unsigned>(kept_at(s, d * kBitWords + j / 4)) >> j % 4 * 8;
    }
    float column[kRowsEach];
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) column[r] = scores[r][0];
#pragma unroll(Pairs::kRowsAtOnce)
    for (int r = 0; r < kRowsEach; ++r) {
      float score = column[0] * scale;
      if constexpr (Pairs::kScored) score = Pairs::score(a, t, score, get(s.x[row_of(r)]), k);
      const float weight = partial ? weight_of_pair(digits) : of_key;
      if (kDirect) {
        // fault(counted_once) instead: score = weight > -infinity() ? score * kDirect : 0;
        // fault(unkept_pairs_weigh) instead: score *= weight > -infinity() ? kDirect * exp2_approx(weight) : 1;
        score = weight > -infinity() ? score * kDirect * exp2_approx(weight) : 0;
      } else {
        score = weight > -infinity() ? __fmaf_rn(score, kToBaseTwo, weight) : -infinity();
      }
      // fault(counts_of_one_row_for_all) leaves this out
#pragma unroll
      for (int d = 0; d < kPlanes; ++d) digits[d] >>= 1;
#pragma unroll
      for (int i = 0; i < kRowsEach - 1; ++i) column[i] = column[i + 1];
      column[kRowsEach - 1] = score;
    }
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int i = 0; i < kKeysEach - 1; ++i) scores[r][i] = scores[r][i + 1];
      scores[r][kKeysEach - 1] = column[r];
    }
  }
}

/// Where two warps share rows: the larger of both.
__device__ __forceinline__ void share_maxima(Shared& s, OfRows& top) {
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    if (lane_of_row() == 0) put(shared_number(s, warp_of_columns(), row_of(r)), top[r]);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) top[r] = fmaxf(top[r], get(shared_number(s, 1 - warp_of_columns(), row_of(r))));
}

/// Raises m where a weight would pass 2^8, which is rare behind the first blocks; what was summed before is scaled.
/// Whether a row's m moves depends on that row alone, and so do its bits.
__device__ __forceinline__ void raise_maxima(Shared& s, State& st, const Scores& scores, float scale) {
  constexpr float kRoom = 8;
  OfRows top, m, l;
  load_maxima(s, m);
  bool grew = false;
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    top[r] = scores[r][0];
#pragma unroll
    for (int j = 1; j < kKeysEach; ++j) top[r] = fmaxf(top[r], scores[r][j]);
    top[r] *= scale;
    grew = grew || top[r] > m[r] + kRoom;
  }
  if (kColumnWarps == 1 && !__any_sync(0xFFFFFFFFu, grew)) return;
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) top[r] = largest_of_row(top[r]);
  if constexpr (kColumnWarps > 1) share_maxima(s, top);
  load_sums(s, l);
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const float raised = top[r] > m[r] + kRoom ? top[r] : m[r];
    const float rescale = exp2_approx(m[r] - raised);
    m[r] = raised;
    // fault(no_rescale_of_the_sum) leaves this out
    l[r] *= rescale;
    // fault(no_rescale) leaves this out
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) st.o[r][c] *= rescale;
  }
  store_sums(s, l);
  store_maxima(s, m);
  // fault(maxima_seen_too_early) leaves this out
  sync_rows();
}

/// P = 2^(score - m).
__device__ __forceinline__ void weigh_scores(Shared& s, Scores& scores, float scale) {
  OfRows m, l;
  load_maxima(s, m);
  load_sums(s, l);
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
    for (int j = 0; j < kKeysEach; ++j) {
      scores[r][j] = exp2_approx(__fmaf_rn(scores[r][j], scale, -m[r]));
      l[r] += scores[r][j];
    }
  }
  store_sums(s, l);
}

/// Stores P of the thread's first four keys, for the warps that share its rows, and turns to the next four.
__device__ __forceinline__ void store_part(Shared& s, Scores& p) {
  const int lane = 8 * warp_of_columns() + lane_of_row();
  float* const to = part_of_rows(s) + lane * 32;
#pragma unroll
  for (int r = 0; r < kRowsEach; r += 4) {
    // fault(swizzle_forgotten) value: to + (r + lane_of_column()) * 4
    float* const rows = to + (((r + lane_of_column()) ^ lane % 4 * 2) * 4);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      store_shared(rows + j * (kPartKeys / 4 * 32), make_float4(p[r][j], p[r + 1][j], p[r + 2][j], p[r + 3][j]));
  }
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
    for (int j = 0; j < kKeysEach - 4; ++j) p[r][j] = p[r][j + 4];
  }
}

/// One key's columns of V that belong to this thread; `row`: where the first of them stands.
__device__ __forceinline__ void load_columns_of_key(const float* row, float (&v)[kColumnsEach]) {
  const auto at = [&](int c) { return row + (column_of(c) - column_of(0)); };
#pragma unroll
  for (int c = 0; c < 4 * kFours; c += 4) unpack(&v[c], load_shared<float4>(at(c)));
  if constexpr (kTwo) {
    const float2 two = load_shared<float2>(at(4 * kFours));
    v[4 * kFours] = two.x;
    v[4 * kFours + 1] = two.y;
  }
  if constexpr (kSingle) v[kColumnsEach - 1] = load_shared<float>(at(kColumnsEach - 1));
}

/// Keys [first, end) of a chunk.
__device__ __forceinline__ void add_values(State& st, const FourRows& weights, const float* values, int first,
                                           int end) {
#pragma unroll
  for (int j = first; j < end; ++j) {
    float p[kRowsEach], v[kColumnsEach];
#pragma unroll
    for (int r = 0; r < kRowsEach; r += 4)
      unpack(&p[r], load_shared<float4>(weights.at(j, r)));
    load_columns_of_key(values + j * kColumns, v);
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int i = 0; i < kColumnsEach; ++i) {
        const int c = there_and_back(i, r, kColumnsEach);
        st.o[r][c] = __fmaf_rn(p[r], v[c], st.o[r][c]);
      }
    }
  }
}

/// Adds one part's keys from global memory, element by element, and only where a pair has a weight.
__device__ __forceinline__ void add_strange_values(Shared& s, State& st, const FourRows& weights, int part) {
#pragma unroll 1
  for (int place = 0; place < kPartKeys; ++place) {
    const unsigned char* const row = get(s.value_row[part * kPartKeys + place]);
    float p[kRowsEach];
#pragma unroll
    for (int r = 0; r < kRowsEach; r += 4) unpack(&p[r], load_shared<float4>(weights.at(place, r)));
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) {
      const float v = column_of(c) < kDimV ? load1<kStored>(row + column_of(c) * kBytes<kStored>) : 0;
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r) st.o[r][c] = p[r] != 0 ? __fmaf_rn(p[r], v, st.o[r][c]) : st.o[r][c];
    }
  }
}

/// For patterns that drop weights: simt_dropout.cuh.
template <typename Pairs>
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                             int part);

/// O += P V; the first chunk is staged. Where V holds a NaN or an infinity, those stay with the rows that keep their
/// key.
template <typename Pairs, bool kBusy>
__device__ __forceinline__ void multiply_values(const weft_args& a, Shared& s, State& st, const Tile& t,
                                                ChunkOfValues next, bool aligned, bool strange, int from, int count,
                                                Scores& p) {
  const int of_columns = kept(4 * column_of(0));
  int half = 0;   // in bytes
  int first = 0;  // key of the chunk under way
#pragma unroll 1
  for (int part = 0; part < kParts; ++part) {
    if (kBusy) {
      // fault(weights_stored_too_early) leaves this out
      sync_rows();  // nobody reads the part before, or what is kept, any more
      store_part(s, p);
      if constexpr (Pairs::kDrops) drop_weights<Pairs>(a, s, t, from, count, part);
    }
    FourRows weights = four_rows(s);
    if (strange) {
      sync_rows();
      if (kBusy) add_strange_values(s, st, weights, part);
      continue;
    }
#pragma unroll 1
    for (int key = 0; key < kPartKeys; key += kStaged) {
      // fault(barrier_before_values) leaves this out
      __syncthreads();
      first += first < kKeys - kStaged ? kStaged : 0;
      if (aligned) next = load_values(s, first);
      const float* const values = beyond(s.stage, of_columns + half);
      if (kBusy) add_values(st, weights, values, 0, kStaged - kLastSteps);
      half = kStageHalf * 4 - half;
      store_values(beyond(s.stage, half), next);
      if (kBusy) add_values(st, weights, values, kStaged - kLastSteps, kStaged);
      if (!aligned) stage_each_value(beyond(s.stage, half), s, first);
      weights.plain += kStaged * 32;
      weights.crossed += kStaged * 32;
    }
  }
  __syncthreads();
}

/// Does V of the block's keys hold a NaN or an infinity? Those must stay with the rows that keep their key.
__device__ __forceinline__ bool values_are_strange(Shared& s, bool aligned) {
  bool strange = false;
#pragma unroll 1
  for (int i = threadIdx.x; i < kKeys * kFoursARow; i += kThreads) {
    const unsigned char* const at =
        get(s.value_row[i / kFoursARow]) + i % kFoursARow * (4 * kBytes<kStored>);
    float sum = 0;
    if (aligned) {
      const Packed<4> v = load_packed<4>(at);
      sum = fabsf(element(v, 0)) + fabsf(element(v, 1)) + fabsf(element(v, 2)) + fabsf(element(v, 3));
    } else {
#pragma unroll 1
      for (int c = i % kFoursARow * 4, n = 0; n < 4 && c + n < kDimV; ++n)
        sum += fabsf(load1<kStored>(at + n * kBytes<kStored>));
    }
    strange |= !(sum < infinity());
  }
  return __syncthreads_or(strange) != 0;
}

/// What a warp does for a block of which its rows keep something.
template <typename Pairs>
__device__ __forceinline__ void compute_block(const weft_args& a, Shared& s, State& st, const Tile& t,
                                              const Rows& rows, const ChunkOfColumns& first, bool aligned, int from,
                                              int count, bool partial, bool plain) {
  float scale = get(s.scale);
  Scores scores;
  multiply_scores<true>(s, rows, aligned, first, scores);
  ChunkOfValues values = {};
  if (aligned) values = load_values(s, 0);  // under way while weights are computed
  // Asked twice: asked once, the assembler lets registers meet more often, and d 64 loses a hundredth of the peak.
  if (!plain) finish_scores<Pairs>(a, s, t, from, count, partial, scores);
  if (!plain) scale = 1;
  if (!kDirect) {
    raise_maxima(s, st, scores, scale);
    weigh_scores(s, scores, scale);
  }
  const bool strange = partial && values_are_strange(s, aligned);
  store_values(s.stage, values);
  if (!aligned) stage_each_value(s.stage, s, 0);
  multiply_values<Pairs, true>(a, s, st, t, values, aligned, strange, from, count, scores);
}

/// … and of which they keep nothing: it meets the others at every barrier.
template <typename Pairs>
__device__ __forceinline__ void help_to_stage(const weft_args& a, Shared& s, State& st, const Tile& t, const Rows& rows,
                                              const ChunkOfColumns& first, bool aligned, bool partial) {
  Scores none;
  multiply_scores<false>(s, rows, aligned, first, none);
  ChunkOfValues values = {};
  if (aligned) values = load_values(s, 0);
  const bool strange = partial && values_are_strange(s, aligned);
  store_values(s.stage, values);
  if (!aligned) stage_each_value(s.stage, s, 0);
  multiply_values<Pairs, false>(a, s, st, t, values, aligned, strange, 0, 0, none);
}

/// One block of keys: the `count` from number `from` of the list on.
template <typename Pairs>
__device__ __forceinline__ void attend_block(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                             int from, int count, bool partial, bool mixed) {
  bool busy = 32 * warp_of_rows() < get(s.tile.count);  // else the warp has no row of its own
  if (partial) {
    Kept kept;
    weigh_pairs(a, s, t, from, count, mixed, kept);
    bool all = true;
#pragma unroll
    for (int i = 0; i < kBitWords; ++i) all = all && all_are_kept(kept, i);
    const bool some = park_kept(s, kept);
    busy = some && busy;
    if (__syncthreads_or(busy) == 0) return;
    // Nothing is masked where every warp keeps all of its pairs, or none.
    partial = __syncthreads_and(kColumnWarps == 1 && (!some || __all_sync(0xFFFFFFFFu, all))) == 0;
  }
  busy = busy || kColumnWarps > 1;  // warps that share rows go together
  const float scale = get(s.scale);
  // Whole blocks of plain products need no pass over their scores: weights enter where the sums start.
  const bool plain = !Pairs::kScored && !partial && count == kKeys && scale > 1e-20f;
  const Rows rows = rows_of_thread(a, s, w, t, from, count, plain ? reciprocal_approx(scale) : 0);
  ChunkOfColumns columns = {};
  if (w.aligned) columns = load_columns(rows, 0);
  store_columns(s, places_of_columns(), 0, columns);
  if (!w.aligned) stage_each_column(s.stage, rows, 0);
  if (busy) {
    compute_block<Pairs>(a, s, st, t, rows, columns, w.aligned, from, count, partial, plain);
  } else {
    help_to_stage<Pairs>(a, s, st, t, rows, columns, w.aligned, partial);
  }
}
