#pragma once

#include "codegen/cuda/device/mma_groups.cuh"
#include "codegen/cuda/device/mma_views.cuh"
#include "codegen/cuda/device/mma_warps.cuh"

// A block of keys in the forward pass: the softmax between the two products.

/// A row's m lies at most so far below its largest score: what was summed is rarely scaled anew. In between begins f16,
/// so that small weights are no zeros, and 255 branches no infinity.
constexpr float kSlack = 8, kHeadroom = kStored == Element::f16 ? 4 : 0;

constexpr int kColumnTiles = kColumns / 8;

/// Of groups a block whose pairs all count is computed tile by tile where nothing is written to shared memory before the
/// last: one's softmax under the products of the other.
constexpr int kParts = kByGroups && kStages > 1 ? kTilesEach : 1;

struct State {
  float o[kTilesEach][kColumnTiles][4];
  float m[kRowsEach];  // what weights are measured from, in units of log 2
  float l[kRowsEach];  // sum of weights: this thread's keys only
};

/// A block of keys between its two products.
struct Block {
  Scores scores;
  Kept kept;
  int from;  // where lists have its keys; of a run, what is asked of them
  unsigned is;  // in one register: marks, and behind them how many keys it has
};

/// Where the lists, which runs have no need of, keep what is asked of such a block's keys.
__device__ __forceinline__ int place_in_run(unsigned marks) { return marks & kMarkOdd ? kKeys : 0; }

__device__ __forceinline__ void clear(Shared&, State& st) {
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    st.m[i] = kLowest;
    st.l[i] = 0;
#pragma unroll
    for (int c = 0; c < kColumnTiles; ++c) st.o[i / 2][c][i % 2] = st.o[i / 2][c][i % 2 + 2] = 0;
  }
}

/// What a thread has settled of its sums, measured from m.
struct __align__(16) Settled {
  State sums, now;
  int rounds;
};

/// By way of the thread's memory: turned in registers, or spelled out for all of them, the sums would not keep the ones
/// in which the products want them.
__device__ __forceinline__ void settle(Shared&, State& st, Settled& settled, bool begun, bool last) {
  State &to = settled.sums, &now = settled.now;
  now = st;
#pragma unroll 1
  for (int i = 0; i < kRowsEach; ++i) {
    // fault(sums_of_matrices_not_scaled) value: begun ? 1 : 0
    const float by = begun ? exp2_approx(to.m[i] - now.m[i]) : 0;
    to.m[i] = now.m[i];
    now.l[i] = settle_sum(to.l[i], now.l[i], by, begun, last);
#pragma unroll(kColumnTiles > 8 ? 8 : kColumnTiles)
    for (int c = 0; c < kColumnTiles; ++c) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& o = now.o[i / 2][c][i % 2 * 2 + e];
        o = settle_sum(to.o[i / 2][c][i % 2 * 2 + e], o, by, begun, last);
      }
    }
  }
  st = now;
}

/// S = Q K^T, once await_products() is behind it.
template <Of kOf>
__device__ __forceinline__ void start_scores(Shared& s, Block& block) {
  multiply_rows<kOf, kRowBytes, kDim>(block.scores, q_rows(s), k_rows(s) + stage_of(block));
}

template <Of kOf>
__device__ __forceinline__ void multiply_scores(Shared& s, Block& block) {
  start_scores<kOf>(s, block);
  await_products<0>(block.scores, 0, kTilesEach);
}

/// O += P V of tiles [first, end), once await_products() is behind it.
template <Of kOf>
__device__ __forceinline__ void start_values(Shared& s, State& st, const Block& block, int first, int end) {
  sum_rows<kOf, kValueBytes>(st.o, block.scores, block.is, v_rows(s) + stage_of(block), first, end);
}
template <Of kOf>
__device__ __forceinline__ void multiply_values(Shared& s, State& st, const Block& block) {
  start_values<kOf>(s, st, block, 0, kTilesEach);
  await_products<0>(st.o, 0, kTilesEach);
}

/// Puts the pattern's score into the place of the products; position(i) is that of the block's key i.
template <typename Pairs, typename Position>
__device__ __forceinline__ void apply_score(const weft_args& a, Shared& s, Block& block, const Position& position) {
  const Tile t = tile_of(s);
  const float scale = (float)a.scale;
  each_pair<Pairs::kKeysAtOnce, Pairs::kRowsAtOnce>(block.scores, [&](int i, int n, int j, float product) {
    return Pairs::score(a, t, product * scale, get(s.x[row_of(i)]), position(key_of(n) + j));
  });
}

/// Pairs of tile i that are not kept score minus infinity, or weigh nothing.
__device__ __forceinline__ void mask_scores(Block& block, int i) {
  const unsigned kept = kept_by_any(block.kept, i);
  if (__all_sync(0xFFFFFFFFu, kept == kAllBits)) return;
#pragma unroll
  for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if ((kept & 1u << (4 * n + e)) == 0) block.scores[i][n][e] = kDirect ? 0 : -infinity();
    }
  }
}

/// New measures where a row's largest score has left the old one too far below; what was summed before is scaled. Of tiles
/// [first, end).
__device__ __forceinline__ void raise_maxima(State& st, const Scores& scores, float scale, int first, int end) {
  float by[kRowsEach];
  bool moved = false;
#pragma unroll
  for (int i = 2 * first; i < 2 * end; ++i) {
    float top = -infinity();
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
      top = fmaxf(top, fmaxf(scores[i / 2][n][i % 2 * 2], scores[i / 2][n][i % 2 * 2 + 1]));
    }
    // A NaN loses, and reaches its row through the sum.
    top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, 2)) * scale;
    const float m = top > st.m[i] + kSlack ? top - kHeadroom : st.m[i];
    by[i] = exp2_approx(st.m[i] - m);
    moved = moved || st.m[i] != m;
    st.m[i] = m;
  }
  if (!__any_sync(0xFFFFFFFFu, moved)) return;
#pragma unroll
  for (int i = 2 * first; i < 2 * end; ++i) {
    // fault(no_rescale_of_a_lanes_sum) leaves this out
    st.l[i] *= by[i];
#pragma unroll
    for (int c = 0; c < kColumnTiles; ++c) {
      // fault(no_rescale_of_fragments) leaves this out
      st.o[i / 2][c][i % 2 * 2] *= by[i];
      st.o[i / 2][c][i % 2 * 2 + 1] *= by[i];
    }
  }
}

/// Times the number of branches that keep each pair; full blocks, and those of runs, have one for each key.
__device__ __forceinline__ void count_branches(Shared& s, Block& block, int first, int end) {
  if (block.is & kMarkMasked && (block.is & kMarkRun) == 0) {
#pragma unroll
    for (int i = first; i < end; ++i) {
      if (__all_sync(0xFFFFFFFFu, none_count_twice(block.kept, i))) continue;
#pragma unroll
      for (int e = 0; e < 4 * kKeyTiles; ++e) count_pair(block.kept, i, e, block.scores[i][e / 4][e % 4]);
    }
    return;
  }
#pragma unroll
  for (int n = 0; n < kKeyTiles; ++n) {
    const float2 count = load_shared<float2>(&s.key_weight[block.from + key_of(n)]);
#pragma unroll
    for (int i = 2 * first; i < 2 * end; ++i) {
      // fault(no_counts_of_full_blocks) leaves this out
      block.scores[i / 2][n][i % 2 * 2] *= count.x;
      block.scores[i / 2][n][i % 2 * 2 + 1] *= count.y;
    }
  }
}

/// P = count * 2^(score - m), or count * score, in the place of S, of tiles [first, end).
__device__ __forceinline__ void weigh_scores(Shared& s, State& st, Block& block, float scale, int first,
                                             int end) {
#pragma unroll
  for (int i = first; i < end; ++i) {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& p = block.scores[i][n][e];
        p = kDirect ? p * kDirect : exp2_approx(__fmaf_rn(p, scale, -st.m[2 * i + e / 2]));
      }
    }
  }
  if constexpr (kCounts) count_branches(s, block, first, end);
  if (kDirect) return;
#pragma unroll
  for (int i = 2 * first; i < 2 * end; ++i) {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
      st.l[i] += block.scores[i / 2][n][i % 2 * 2] + block.scores[i / 2][n][i % 2 * 2 + 1];
    }
  }
}

/// For patterns that drop weights: mma_dropout.cuh.
template <typename Pairs>
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, Block& block);
