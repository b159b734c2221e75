#pragma once

#include "codegen/cuda/device/settle.cuh"
#include "codegen/cuda/device/simt_stage.cuh"

// Products of a block of keys in f32 on the plain lanes: rows by keys (S = Q K^T), and sums of values (O += P V).

/// The thread's part of what rows sum up.
using Sums = float[kRowsEach][kColumnsEach];

using Scores = float[kRowsEach][kKeysEach];

/// The order of products inside a step: as the next row or column begins with the operand that the last one ended with,
/// it is still at hand, and registers meet less often in one bank (docs/how-the-cuda-kernel-works.md has figures).
__device__ __forceinline__ int there_and_back(int i, int turn, int count) { return turn % 2 == 0 ? i : count - 1 - i; }

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

/// The last turn of a product stages its own chunk again: nobody reads it, and the loop has no branch. Where another
/// product follows, it stages the first chunk of that one: load(), store(half) and, of rows that are not aligned,
/// stage_each(half).
struct NothingBehind {
  static constexpr bool kFollows = false, kOfColumns = false;
  __device__ __forceinline__ void load() {}
  __device__ __forceinline__ void store(int) {}
  __device__ __forceinline__ void stage_each(int) {}
};

/// scores += rows of the tile times rows of keys, over so many columns; the first chunk is staged in the half that begins
/// at byte `half`, which becomes that of what is staged behind the last. start() gives the scores their first values
/// behind a barrier, which a product before this one may have had. Keys behind the block's last repeat it. A warp whose
/// rows keep nothing only helps to stage.
template <bool kBusy, int kColumnsThereAre, typename Start, typename Behind>
__device__ __forceinline__ void multiply_scores(Shared& s, const Rows& rows, bool aligned, ChunkOfColumns next,
                                                Scores& scores, const Start& start, int& half, bool follows,
                                                Behind behind) {
  constexpr int kChunks = (kColumnsThereAre + kDepth - 1) / kDepth;
  const int of_rows = kept(4 * row_of(0)), of_keys = kept(4 * (kDepth * kRows + key_of(0)));
  const Places places = places_of_columns();
  int column = 0;  // in bytes, as what is added to an address
  // fault(barrier_before_scores) leaves this out
  if (!follows) meet_warps();
  if (kBusy) start();
#pragma unroll 1
  for (int chunk = 1;; ++chunk) {
    const bool last = chunk == kChunks, turns = Behind::kFollows && last;
    column += last ? 0 : kDepth * kBytes<kStored>;
    if constexpr (Behind::kOfColumns) {
      const Rows at = {last ? behind.rows.row : rows.row + column, last ? behind.rows.key : rows.key + column};
      // fault(columns_behind_of_this_product) instead: if (aligned) next = load_columns(rows, column);
      if (aligned) next = load_columns(at, 0);
    } else {
      if (aligned && !turns) next = load_columns(rows, column);
      if (aligned && turns) behind.load();
    }
    const float* const rows_at = beyond(s.stage, of_rows + half);
    const float* const keys_at = beyond(s.stage, of_keys + half);
    if (kBusy) add_scores(rows_at, keys_at, 0, kDepth - kLastSteps, scores);
    half = kStageHalf * 4 - half;
    if (Behind::kOfColumns || !turns) {
      // fault(chunk_over_the_one_at_hand) instead: store_columns(s, places, kStageHalf * 4 - half, next);
      store_columns(s, places, half, next);
    } else {
      behind.store(half);
    }
    if (kBusy) add_scores(rows_at, keys_at, kDepth - kLastSteps, kDepth, scores);
    if (!aligned && !turns) stage_each_column<kColumnsThereAre>(beyond(s.stage, half), rows, last ? chunk - 1 : chunk);
    if (!aligned && turns) behind.stage_each(half);
    // fault(barrier_behind_scores) leaves this out
    meet_warps();
    if (last) break;
  }
}

template <bool kBusy, int kColumnsThereAre, typename Start>
__device__ __forceinline__ void multiply_scores(Shared& s, const Rows& rows, bool aligned, const ChunkOfColumns& next,
                                                Scores& scores, const Start& start) {
  int half = 0;
  multiply_scores<kBusy, kColumnsThereAre>(s, rows, aligned, next, scores, start, half, false, NothingBehind());
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

/// What a block of keys asks of a warp.
struct Work {
  bool none;    // of any warp
  bool busy;    // it computes; else it only helps to stage
  bool masked;  // pairs are kept as kept_at says; else all are
};
__device__ __forceinline__ Work work_of_block(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                              bool partial, bool mixed) {
  bool busy = 32 * warp_of_rows() < get(s.tile.count);  // else the warp has no row of its own
  if (partial) {
    Kept kept;
    weigh_pairs(a, s, t, from, count, mixed, kept);
    bool all = true;
#pragma unroll
    for (int i = 0; i < kBitWords; ++i) all = all && all_are_kept(kept, i);
    const bool some = park_kept(s, kept);
    busy = some && busy;
    if (__syncthreads_or(busy) == 0) return {true, false, false};
    // Nothing is masked where every warp keeps all of its pairs, or none.
    partial = __syncthreads_and(kColumnWarps == 1 && (!some || __all_sync(0xFFFFFFFFu, all))) == 0;
  }
  return {false, busy || kColumnWarps > 1, partial};  // warps that share rows go together
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

/// Where four rows of the thread's, from r on, stand in P for its first key of a part …
__device__ __forceinline__ float* own_part(Shared& s, int r) {
  const int lane = 8 * warp_of_columns() + lane_of_row();
  float* const own = part_of_rows(s) + lane * 32;
  // fault(swizzle_forgotten) also: return own + (r + lane_of_column()) * 4;
  return own + (((r + lane_of_column()) ^ lane % 4 * 2) * 4);
}
/// … and so far apart for the next ones.
constexpr int kOwnStep = kPartKeys / 4 * 32;

/// Stores P of the thread's first four keys, for the warps that share its rows, and turns to the next four.
__device__ __forceinline__ void store_part(Shared& s, Scores& p) {
#pragma unroll
  for (int r = 0; r < kRowsEach; r += 4) {
    float* const rows = own_part(s, r);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      store_shared(rows + j * kOwnStep, make_float4(p[r][j], p[r + 1][j], p[r + 2][j], p[r + 3][j]));
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
__device__ __forceinline__ void add_values(Sums& sums, const FourRows& weights, const float* values, int first,
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
        sums[r][c] = __fmaf_rn(p[r], v[c], sums[r][c]);
      }
    }
  }
}

/// Adds one part's keys from global memory, element by element, and only where a pair has a weight.
template <int kColumnsThereAre>
__device__ __forceinline__ void add_strange_values(ValueRows value_rows, Sums& sums, const FourRows& weights,
                                                   int part) {
#pragma unroll 1
  for (int place = 0; place < kPartKeys; ++place) {
    const unsigned char* const row = get(value_rows[part * kPartKeys + place]);
    float p[kRowsEach];
#pragma unroll
    for (int r = 0; r < kRowsEach; r += 4) unpack(&p[r], load_shared<float4>(weights.at(place, r)));
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) {
      const float v = column_of(c) < kColumnsThereAre ? load1<kStored>(row + column_of(c) * kBytes<kStored>) : 0;
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r) sums[r][c] = p[r] != 0 ? __fmaf_rn(p[r], v, sums[r][c]) : sums[r][c];
    }
  }
}

/// sums += P times values, which have so many columns; the first chunk is staged, and what follows the last, in halves as
/// above. Where values hold a NaN or an infinity, those stay with the rows that keep their key, and nothing is staged
/// behind. stored(part) may change P of a part of the keys in shared memory.
template <bool kBusy, int kColumnsThereAre, typename Stored, typename Behind>
__device__ __forceinline__ void multiply_values(Shared& s, ValueRows value_rows, Sums& sums, ChunkOfValues next,
                                                bool aligned, bool strange, Scores& p, const Stored& stored, int& half,
                                                Behind behind) {
  const int of_columns = kept(4 * column_of(0));
  int first = 0;  // key of the chunk under way
#pragma unroll 1
  for (int part = 0; part < kParts; ++part) {
    if (kBusy) {
      // fault(weights_stored_too_early) leaves this out
      sync_rows();  // nobody reads the part before, or what is kept, any more
      store_part(s, p);
      stored(part);
    }
    FourRows weights = four_rows(s);
    if (strange) {
      sync_rows();
      if (kBusy) add_strange_values<kColumnsThereAre>(value_rows, sums, weights, part);
      continue;
    }
#pragma unroll 1
    for (int key = 0; key < kPartKeys; key += kStaged) {
      // fault(barrier_before_values) leaves this out
      meet_warps();
      const bool turns = Behind::kFollows && first == kKeys - kStaged;
      first += first < kKeys - kStaged ? kStaged : 0;
      if (aligned && !turns) next = load_values(value_rows, first);
      if (aligned && turns) behind.load();
      const float* const values = beyond(s.stage, of_columns + half);
      if (kBusy) add_values(sums, weights, values, 0, kStaged - kLastSteps);
      half = kStageHalf * 4 - half;
      if (!turns) {
        store_values(beyond(s.stage, half), next);
      } else {
        behind.store(half);
      }
      if (kBusy) add_values(sums, weights, values, kStaged - kLastSteps, kStaged);
      if (!aligned && !turns) stage_each_value<kColumnsThereAre>(beyond(s.stage, half), value_rows, first);
      if (!aligned && turns) behind.stage_each(half);
      weights.plain += kStaged * 32;
      weights.crossed += kStaged * 32;
    }
  }
  meet_warps();
}

template <bool kBusy, int kColumnsThereAre, typename Stored>
__device__ __forceinline__ void multiply_values(Shared& s, ValueRows value_rows, Sums& sums, const ChunkOfValues& next,
                                                bool aligned, bool strange, Scores& p, const Stored& stored) {
  int half = 0;
  multiply_values<kBusy, kColumnsThereAre>(s, value_rows, sums, next, aligned, strange, p, stored, half, NothingBehind());
}

/// Do the rows of values hold a NaN or an infinity? Those must stay with the rows that keep their key.
template <int kColumnsThereAre>
__device__ __forceinline__ bool values_are_strange(ValueRows value_rows, bool aligned) {
  bool strange = false;
#pragma unroll 1
  for (int i = threadIdx.x; i < kKeys * kFoursARow; i += kThreads) {
    const unsigned char* const at =
        get(value_rows[i / kFoursARow]) + i % kFoursARow * (4 * kBytes<kStored>);
    float sum = 0;
    if (aligned) {
      const Packed<4> v = load_packed<4>(at);
      sum = fabsf(element(v, 0)) + fabsf(element(v, 1)) + fabsf(element(v, 2)) + fabsf(element(v, 3));
    } else {
#pragma unroll 1
      for (int c = i % kFoursARow * 4, n = 0; n < 4 && c + n < kColumnsThereAre; ++n)
        sum += fabsf(load1<kStored>(at + n * kBytes<kStored>));
    }
    strange |= !(sum < infinity());
  }
  return meet_warps_or(strange);
}
