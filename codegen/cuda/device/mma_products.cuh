#pragma once

#include "codegen/cuda/device/mma_ptx.cuh"
#include "codegen/cuda/device/pairs.cuh"
#include "codegen/cuda/device/settle.cuh"

// The two products of a block of keys by matrix instructions, and the softmax between them. A warp computes tiles of 16
// rows; S stays in registers, where the results of the first product are the operands of the second.

/// A row's m lies at most so far below its largest score: what was summed is rarely scaled anew. In between begins f16,
/// so that small weights are no zeros, and 255 branches no infinity.
constexpr float kSlack = 8, kHeadroom = kStored == Element::f16 ? 4 : 0;

constexpr int kColumnTiles = kColumns / 8;

struct State {
  float o[kTilesEach][kColumnTiles][4];
  float m[kRowsEach];  // what weights are measured from, in units of log 2
  float l[kRowsEach];  // sum of weights: this thread's keys only
};

using Scores = float[kTilesEach][kKeyTiles][4];

/// A block of keys between its two products.
struct Block {
  Scores scores;
  Kept kept;
  int from;
  unsigned is;  // in one register: marks, and behind them how many keys it has
};

enum Mark : unsigned {
  kMarkPartial = 1,  // of partial zones
  kMarkMixed = 2,    // keys of full zones come before the partial ones
  kMarkStrange = 4,  // V has a NaN or an infinity
  kMarkTile = 8,     // the warp's first tile of 16 rows has a pair that counts; twice this, the second
  kMarkTiles = ((1 << kTilesEach) - 1) * kMarkTile,
  kMarkMasked = 32,  // pairs differ
  kMarkRun = 64,     // of a run: see next_run()
  kMarkOdd = 128,    // in the second stage
  kMarkCount = 256,  // times the number of keys
};
__device__ __forceinline__ int count_of(const Block& block) { return (int)(block.is / kMarkCount); }
__device__ __forceinline__ int stage_of(const Block& block) {
  return kStages > 1 && block.is & kMarkOdd ? kStageBytes : 0;
}
__device__ __forceinline__ void mark(Block& block, Mark mark, bool on) {
  block.is = on ? block.is | mark : block.is & ~mark;
}

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

template <bool kFenced = false>
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int on = 1) {
  if constexpr (kStored == Element::f16) {
    multiply_halves<kFenced>(c, a, b0, b1, on);
  } else {
    multiply_bfloats<kFenced>(c, a, b0, b1, on);
  }
}

__device__ __forceinline__ unsigned pack(float low, float high) {
  if constexpr (kStored == Element::f16) {
    return pack_halves(low, high);
  } else {
    return pack_bfloats(low, high);
  }
}

/// Nobody asks for them in the next turn of a loop.
__device__ __forceinline__ void forget(Scores& scores) {
#pragma unroll
  for (int i = 0; i < kTilesEach * kKeyTiles * 4; ++i) scores[i / 4 / kKeyTiles][i / 4 % kKeyTiles][i % 4] = anything();
}

/// What columns [16 c, 16 c + 16) of Q and K add to S, of whose rows these are the lane's. Tiles without a pair that counts
/// are left out where not `kAll` have one.
template <bool kAll>
__device__ __forceinline__ void multiply_columns(Block& block, const unsigned char* q, const unsigned char* k, int c) {
  unsigned rows[kTilesEach][4];
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) load_matrices(rows[i], q + i * (16 * kWarps) * kRowBytes + c * 32);
#pragma unroll
  for (int n = 0; n < kKeyTiles; n += 2) {
    unsigned keys[4];
    // fault(rows_of_k_in_two_banks) instead: load_matrices(keys, k + threadIdx.x % 8 * 3 * kRowBytes + c * 32);
    load_matrices(keys, k + n * 8 * kRowBytes + c * 32);
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
      const int on = kAll ? 1 : (int)(block.is & kMarkTile << i);
      multiply<!kAll>(block.scores[i][n], rows[i], keys[0], keys[1], on);
      multiply<!kAll>(block.scores[i][n + 1], rows[i], keys[2], keys[3], on);
    }
  }
}

/// S = Q K^T.
template <bool kAll>
__device__ __forceinline__ void multiply_scores(Shared& s, Block& block) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // fault(row_of_q) value: right + (lane % 16 < 8 ? 8 : -8) * kRowBytes
  const unsigned char* const q = q_rows(s) + (warp * 16 + lane % 16) * kRowBytes + lane / 16 * 16;
  // fault(row_of_k) value: k_rows(s) + lane % 16 * kRowBytes + lane / 8 % 2 * 16
  const unsigned char* const k = k_rows(s) + stage_of(block) + (lane / 16 * 8 + lane % 8) * kRowBytes + lane / 8 % 2 * 16;
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) block.scores[i][n][e] = 0;
    }
  }
#pragma unroll(kAll ? 4 : 1)
  for (int c = 0; c < kWide / 16; ++c) multiply_columns<kAll>(block, q, k, c);
}

/// O += P V.
template <bool kAll>
__device__ __forceinline__ void multiply_values(Shared& s, State& st, const Block& block) {
  const int lane = threadIdx.x % 32;
  // fault(row_of_v) value: v_rows(s) + (lane / 16 * 8 + lane % 8) * kValueBytes + lane / 16 * 16
  const unsigned char* const v = v_rows(s) + stage_of(block) + lane % 16 * kValueBytes + lane / 16 * 16;
#pragma unroll
  for (int n = 0; n < kKeyTiles; n += 2) {
    unsigned weights[kTilesEach][4];
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        // fault(weights_of_the_other_keys) value: &block.scores[i][n + 1 - e / 2][e % 2 * 2]
        const float* const p = &block.scores[i][n + e / 2][e % 2 * 2];
        weights[i][e] = pack(p[0], p[1]);
      }
    }
#pragma unroll
    for (int c = 0; c < kColumnTiles; c += 2) {
      unsigned columns[4];
      // fault(values_not_transposed) instead: load_matrices(columns, v + n * 8 * kValueBytes + c * 16);
      load_transposed(columns, v + n * 8 * kValueBytes + c * 16);
#pragma unroll
      for (int i = 0; i < kTilesEach; ++i) {
          // Without a fence all of V's fragments are loaded ahead, and at 128 columns registers are spilled.
        constexpr bool kFenced = !kAll || kColumns > 64;
        const int on = (int)(block.is & kMarkTile << i);
        multiply<kFenced>(st.o[i][c], weights[i], columns[0], columns[1], on);
        // fault(halves_of_b_swapped) instead: multiply<!kAll>(st.o[i][c + 1], weights[i], columns[3], columns[2], on);
        multiply<!kAll>(st.o[i][c + 1], weights[i], columns[2], columns[3], on);
      }
    }
  }
}

/// Puts use(row, tile of keys, key of it, value) into the place of every value. Loops that are not unrolled turn the
/// registers, because an index would put them on the stack.
template <int kTilesAtOnce, int kRowsAtOnce, typename Use>
__device__ __forceinline__ void each_pair(Scores& scores, const Use& use) {
#pragma unroll(kTilesAtOnce)
  for (int n = 0; n < kKeyTiles; ++n) {
    float now[kRowsEach][2];
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      now[i][0] = scores[i / 2][0][i % 2 * 2];
      now[i][1] = scores[i / 2][0][i % 2 * 2 + 1];
    }
#pragma unroll(kRowsAtOnce)
    for (int i = 0; i < kRowsEach; ++i) {
      const float x = use(i, n, 0, now[0][0]), y = use(i, n, 1, now[0][1]);
#pragma unroll
      for (int other = 0; other < kRowsEach - 1; ++other) {
        now[other][0] = now[other + 1][0];
        now[other][1] = now[other + 1][1];
      }
      now[kRowsEach - 1][0] = x;
      now[kRowsEach - 1][1] = y;
    }
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int other = 0; other < kKeyTiles - 1; ++other) scores[i][other][e] = scores[i][other + 1][e];
        scores[i][kKeyTiles - 1][e] = now[2 * i + e / 2][e % 2];
      }
    }
  }
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

/// Pairs that are not kept score minus infinity, or weigh nothing.
__device__ __forceinline__ void mask_scores(Block& block) {
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
    const unsigned kept = kept_by_any(block.kept, i);
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if ((kept & 1u << (4 * n + e)) == 0) block.scores[i][n][e] = kDirect ? 0 : -infinity();
      }
    }
  }
}

/// The same where all pairs of a tile are kept, or none.
__device__ __forceinline__ void leave_out_tiles(Block& block) {
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
    if (block.is & kMarkTile << i) continue;
#pragma unroll
    for (int e = 0; e < 4 * kKeyTiles; ++e) block.scores[i][e / 4][e % 4] = kDirect ? 0 : -infinity();
  }
}

/// New measures where a row's largest score has left the old one too far below; what was summed before is scaled.
__device__ __forceinline__ void raise_maxima(State& st, const Scores& scores, float scale) {
  float by[kRowsEach];
  bool moved = false;
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
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
  for (int i = 0; i < kRowsEach; ++i) {
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

/// Times the number of branches that keep each pair; full blocks have one for each key.
__device__ __forceinline__ void count_branches(Shared& s, Block& block) {
  if (block.is & kMarkMasked) {
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
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
    for (int i = 0; i < kRowsEach; ++i) {
      // fault(no_counts_of_full_blocks) leaves this out
      block.scores[i / 2][n][i % 2 * 2] *= count.x;
      block.scores[i / 2][n][i % 2 * 2 + 1] *= count.y;
    }
  }
}

/// P = count * 2^(score - m), or count * score, in the place of S.
__device__ __forceinline__ void weigh_scores(Shared& s, State& st, Block& block, float scale) {
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& p = block.scores[i][n][e];
        p = kDirect ? p * kDirect : exp2_approx(__fmaf_rn(p, scale, -st.m[2 * i + e / 2]));
      }
    }
  }
  if constexpr (kCounts) count_branches(s, block);
  if (kDirect) return;
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
      st.l[i] += block.scores[i / 2][n][i % 2 * 2] + block.scores[i / 2][n][i % 2 * 2 + 1];
    }
  }
}

/// Which halves of two are NaN or an infinity: the sign bit of each.
__device__ __forceinline__ unsigned strange_of(unsigned two) {
  constexpr unsigned kExponents = kStored == Element::f16 ? 0x7C007C00u : 0x7F807F80u;
  constexpr unsigned kLast = kStored == Element::f16 ? 0x04000400u : 0x00800080u;
  return ((two & kExponents) + kLast) & 0x80008000u;
}

/// Whether V has a NaN or an infinity in this thread's share of the block; puts zeros in their place where `clear`.
__device__ __forceinline__ bool find_strange(Shared& s, bool clear) {
  unsigned found = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < kKeys * kColumns / 4; i += kThreads) {
    unsigned char* const at = v_rows(s) + i / (kColumns / 4) * kValueBytes + i % (kColumns / 4) * 8;
    uint2 x = load_shared<uint2>(at);
    const unsigned low = strange_of(x.x), high = strange_of(x.y);
    found |= low | high;
    if (!clear) continue;
    x.x &= ~((low >> 15) * 0xFFFFu);
    x.y &= ~((high >> 15) * 0xFFFFu);
    store_shared(at, x);
  }
  return found != 0;
}

/// Adds the block's NaNs and infinities of V to the rows that keep their keys, and takes them away: the product would
/// give them to every row.
__device__ __forceinline__ void add_strange(Shared& s, State& st, const Block& block) {
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int k = 0; k < count_of(block); ++k) {
    unsigned keeps[kTilesEach];  // bit 0: the upper row, bit 2: the lower
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
      const unsigned of_key = __shfl_sync(0xFFFFFFFFu, kept_by_any(block.kept, i), (lane & ~3) | k % 8 / 2);
      keeps[i] = of_key >> (k / 8 * 4 + k % 2);
    }
    const unsigned char* const row = v_rows(s) + k * kValueBytes + lane % 4 * 4;
#pragma unroll 1
    for (int c = 0; c < kColumnTiles; ++c) {
      const unsigned two = load_shared<unsigned>(row + c * 16), strange = strange_of(two);
      if (strange == 0) continue;
      const float x = strange & 0x8000u ? from_bits<kStored>((unsigned short)two) : -0.0f;
      const float y = strange & 0x80000000u ? from_bits<kStored>((unsigned short)(two >> 16)) : -0.0f;
      // An index would put them on the stack.
#pragma unroll
      for (int other = 0; other < kColumnTiles; ++other) {
        if (other != c) continue;
#pragma unroll
        for (int i = 0; i < kRowsEach; ++i) {
          const bool kept = keeps[i / 2] >> (i % 2 * 2) & 1;
          st.o[i / 2][other][i % 2 * 2] += kept ? x : -0.0f;
          st.o[i / 2][other][i % 2 * 2 + 1] += kept ? y : -0.0f;
        }
      }
    }
  }
  __syncthreads();
  find_strange(s, true);
  __syncthreads();
}

/// For patterns that drop weights: mma_dropout.cuh.
template <typename Pairs>
__device__ __forceinline__ void drop_weights(const weft_args& a, Shared& s, Block& block);
