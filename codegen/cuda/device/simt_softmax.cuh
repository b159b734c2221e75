#pragma once

#include "codegen/cuda/device/simt_products.cuh"
#include "codegen/cuda/device/simt_views.cuh"

// A block of keys in the forward pass: the softmax between the two products.

/// What a thread has settled of its sums: m and l of its rows, and O.
struct SettledSums {
  float sums[(kColumnsEach + 2) * kRowsEach];
  int rounds;
};

/// The thread's part of O. What is needed once a block stands in shared memory: m and l, see maxima_at and sums_at.
struct State {
  using Settled = SettledSums;
  Sums o;
};

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

/// Columns turn, so that the code stands once for all of them.
__device__ __forceinline__ void settle(Shared& s, State& st, SettledSums& to, bool begun, bool last) {
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

/// For patterns that drop weights: simt_dropout.cuh.
template <typename Pairs>
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                             int part);

/// What a warp does for a block of which its rows keep something.
template <typename Pairs>
__device__ __forceinline__ void compute_block(const weft_args& a, Shared& s, State& st, const Tile& t,
                                              const Rows& rows, const ChunkOfColumns& first, bool aligned, int from,
                                              int count, bool partial, bool plain) {
  float scale = get(s.scale);
  Scores scores;
  multiply_scores<true, kDim>(s, rows, aligned, first, scores, [&] { start_scores(s, scores); });
  ChunkOfValues values = {};
  if (aligned) values = load_values(s.value_row, 0);  // under way while weights are computed
  // Asked twice: asked once, the assembler lets registers meet more often, and d 64 loses a hundredth of the peak.
  if (!plain) finish_scores<Pairs>(a, s, t, from, count, partial, scores);
  if (!plain) scale = 1;
  if (!kDirect) {
    raise_maxima(s, st, scores, scale);
    weigh_scores(s, scores, scale);
  }
  const bool strange = partial && values_are_strange<kDimV>(s.value_row, aligned);
  store_values(s.stage, values);
  if (!aligned) stage_each_value<kDimV>(s.stage, s.value_row, 0);
  multiply_values<true, kDimV>(s, s.value_row, st.o, values, aligned, strange, scores, [&](int part) {
    if constexpr (Pairs::kDrops) drop_weights<Pairs>(a, s, t, from, count, part);
  });
}

/// … and of which they keep nothing: it meets the others at every barrier.
__device__ __forceinline__ void help_to_stage(Shared& s, State& st, const Rows& rows, const ChunkOfColumns& first,
                                              bool aligned, bool partial) {
  Scores none;
  multiply_scores<false, kDim>(s, rows, aligned, first, none, [] {});
  ChunkOfValues values = {};
  if (aligned) values = load_values(s.value_row, 0);
  const bool strange = partial && values_are_strange<kDimV>(s.value_row, aligned);
  store_values(s.stage, values);
  if (!aligned) stage_each_value<kDimV>(s.stage, s.value_row, 0);
  multiply_values<false, kDimV>(s, s.value_row, st.o, values, aligned, strange, none, [](int) {});
}

/// One block of keys: the `count` from number `from` of the list on.
template <typename Pairs>
__device__ __forceinline__ void attend_block(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                             int from, int count, bool partial, bool mixed) {
  const Work work = work_of_block(a, s, t, from, count, partial, mixed);
  if (work.none) return;
  partial = work.masked;
  const float scale = get(s.scale);
  // Whole blocks of plain products need no pass over their scores: weights enter where the sums start.
  const bool plain = !Pairs::kScored && !partial && count == kKeys && scale > 1e-20f;
  const Rows rows = rows_of_thread(a, s, w, t, from, count, plain ? reciprocal_approx(scale) : 0);
  ChunkOfColumns columns = {};
  if (w.aligned) columns = load_columns(rows, 0);
  store_columns(s, places_of_columns(), 0, columns);
  if (!w.aligned) stage_each_column<kDim>(s.stage, rows, 0);
  if (work.busy) {
    compute_block<Pairs>(a, s, st, t, rows, columns, w.aligned, from, count, partial, plain);
  } else {
    help_to_stage(s, st, rows, columns, w.aligned, partial);
  }
}
