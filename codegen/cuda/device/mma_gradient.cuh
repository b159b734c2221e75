#pragma once

#include "codegen/cuda/device/gradient_deltas.cuh"
#include "codegen/cuda/device/mma_columns.cuh"
#include "codegen/cuda/device/mma_gradient_views.cuh"
#include "codegen/cuda/device/mma_warps.cuh"

// A block of keys in the backward pass, by matrix instructions: S and dP, from them P and dS, which are the operands of the
// sums. See simt_gradient.cuh for what a tile sums up.

struct SettledGradients;

/// The thread's part of dQ, or of dK and dV; and which softmax is at hand. Aligned: see end_round().
struct __align__(16) State {
  using Settled = SettledGradients;
  float first[kTilesEach][kTilesOf<0>][4];
  float second[kTransposed ? kTilesEach : 1][kTransposed ? kTilesOf<1> : 1][4];
  int softmax;
};

template <int kPart>
__device__ __forceinline__ auto& part_of(State& st) {
  if constexpr (kPart == 0) {
    return st.first;
  } else {
    return st.second;
  }
}

template <typename Sums>
__device__ __forceinline__ void clear_sums(Sums& sums) {
#pragma unroll
  for (auto& tile : sums) {
#pragma unroll
    for (auto& four : tile) four[0] = four[1] = four[2] = four[3] = 0;
  }
}
__device__ __forceinline__ void clear(State& st) {
  st.softmax = 0;
  clear_sums(st.first);
  clear_sums(st.second);
}

/// What a thread has settled: see mma_softmax.cuh.
struct __align__(16) SettledGradients {
  State sums, now;
  int rounds;
};

template <typename Sums>
__device__ __forceinline__ void settle_all(Sums& to, Sums& now, bool begun, bool last) {
  constexpr int kFours = sizeof(Sums) / sizeof(float[4]);
  float(*const settled)[4] = &to[0][0];
  float(*const sums)[4] = &now[0][0];
#pragma unroll 1
  for (int i = 0; i < kFours; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[i][e] = settle_sum(settled[i][e], sums[i][e], 1, begun, last);
  }
}
__device__ __forceinline__ void settle(Shared&, State& st, SettledGradients& settled, bool begun, bool last) {
  settled.now = st;
  settle_all(settled.sums.first, settled.now.first, begun, last);
  if constexpr (kTransposed) settle_all(settled.sums.second, settled.now.second, begun, last);
  st = settled.now;
}

/// A block of keys between its products.
struct Block {
  Kept kept;
  int from;     // place on the list
  unsigned is;  // marks, and behind them how many keys it has
};

/// What dropout makes of the weights of a block's pairs; where there is any, mma_gradient_dropout.cuh says so.
template <typename Pairs, bool = Pairs::kDrops>
struct Dropped {
  __device__ __forceinline__ Dropped(const weft_args&, Shared&, const Block&) {}
  __device__ __forceinline__ float scaled(int) const { return 1; }
  __device__ __forceinline__ void turn() {}
};

/// From products to what pick(gradient of the pair) takes of them, in the place of both. Loops that are not unrolled turn
/// the registers, because an index would put them on the stack.
template <typename Pairs, bool kMasked, typename Pick>
__device__ __forceinline__ void each_gradient_of_pair(const weft_args& a, Shared& s, const Block& block, float units,
                                                      Dropped<Pairs> dropped, Scores& p, Scores& d, const Pick& pick) {
  constexpr int kTilesAtOnce = !Pairs::kScored ? kKeyTiles : Pairs::kKeysAtOnce;
  constexpr int kRowsAtOnce = !Pairs::kScored ? kRowsEach : Pairs::kRowsAtOnce;
  const Tile t = tile_of(s);
  const bool masked = block.is & kMarkMasked;
  unsigned digits[kPlanes][kTilesEach];
#pragma unroll
  for (int i = 0; i < kPlanes * kTilesEach && kMasked; ++i)
    digits[i / kTilesEach][i % kTilesEach] = masked ? block.kept.digits[i / kTilesEach][i % kTilesEach] : ~0u;
#pragma unroll(kTilesAtOnce)
  for (int n = 0; n < kKeyTiles; ++n) {
    const int key = key_of(n);
    // A fence: pairs of all tiles at once would take too many registers.
    if (kMasked && kTransposed) __syncwarp();
    float4 of_keys = {};  // terms of two queries
    if (kTransposed && !kDirect) {
      const float4 terms = load_shared<float4>(&s.terms[(stage_of(block) > 0 ? kKeys : 0) + key]);
      of_keys = make_float4(terms.x, terms.y * units, terms.z, terms.w * units);
    }
    float2 counts = make_float2(1, 1);
    if (kCounts && !(kMasked && masked)) {
      counts = load_shared<float2>(&s.key_weight[block.from + key]);
      counts = make_float2(log2_approx(counts.x), log2_approx(counts.y));
    }
    int y[2] = {};
    if (Pairs::kScored) {
      y[0] = get(s.key[block.from + min(key, count_of(block) - 1)]);
      y[1] = get(s.key[block.from + min(key + 1, count_of(block) - 1)]);
    }
    float products[kRowsEach][2], d_weights[kRowsEach][2];
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        products[i][j] = p[i / 2][0][i % 2 * 2 + j];
        d_weights[i][j] = d[i / 2][0][i % 2 * 2 + j];
      }
    }
#pragma unroll(kRowsAtOnce)
    for (int i = 0; i < kRowsEach; ++i) {
      float2 terms = {};
      if (!kTransposed) terms = load_shared<float2>(&s.terms[row_of(i)]);
      int x = 0;
      if (Pairs::kScored) x = get(s.x[row_of(i)]);
      float2 of[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (kTransposed) terms = j == 0 ? make_float2(of_keys.x, of_keys.y) : make_float2(of_keys.z, of_keys.w);
        float weight = 0;
        if (kMasked && (!kCounts || masked)) {
          unsigned count = 0;
#pragma unroll
          for (int plane = 0; plane < kPlanes; ++plane) count |= (digits[plane][0] >> (i % 2 * 2 + j) & 1) << plane;
          weight = kCounts ? log2_approx((float)count) : count != 0 ? 0 : -infinity();
        } else if (kCounts) {
          weight = j == 0 ? counts.x : counts.y;
        }
        const int q = kTransposed ? y[j] : x, k = kTransposed ? x : y[j];
        of[j] = pick(gradient_of_pair<Pairs>(a, t, products[0][j], d_weights[0][j], weight, terms,
                                             dropped.scaled(i % 2 * 2 + j), units, q, k));
      }
      // Two rows are of one tile, whose word the next ones leave.
      if (i % 2 == 1) dropped.turn();
      if (kMasked && i % 2 == 1) {
#pragma unroll
        for (int plane = 0; plane < kPlanes; ++plane) {
          const unsigned word = digits[plane][0] >> 4;
          digits[plane][0] = digits[plane][kTilesEach - 1];
          digits[plane][kTilesEach - 1] = word;
        }
      }
#pragma unroll
      for (int other = 0; other < kRowsEach - 1; ++other) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          products[other][j] = products[other + 1][j];
          d_weights[other][j] = d_weights[other + 1][j];
        }
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        products[kRowsEach - 1][j] = of[j].x;
        d_weights[kRowsEach - 1][j] = of[j].y;
      }
    }
#pragma unroll
    for (int i = 0; i < kTilesEach; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int other = 0; other < kKeyTiles - 1; ++other) {
          p[i][other][e] = p[i][other + 1][e];
          d[i][other][e] = d[i][other + 1][e];
        }
        p[i][kKeyTiles - 1][e] = products[2 * i + e / 2][e % 2];
        d[i][kKeyTiles - 1][e] = d_weights[2 * i + e / 2][e % 2];
      }
    }
  }
}

/// Of 16 columns the operands: the tile's rows, and two tiles of 8 keys each.
struct Fragments {
  unsigned rows[kTilesEach][4], keys[kKeyTiles / 2][4];
};

/// multiply_rows() of whole tiles, where registers hold the operands of two steps: the next ones arrive under a step's
/// products. Left to itself ptxas loads as far ahead as it finds registers, and spills.
template <int kApart, int kSteps>
__device__ __forceinline__ void multiply_in_steps(Scores& scores, const unsigned char* rows, const unsigned char* keys) {
  const unsigned char *q = nullptr, *k = nullptr;
  find_operands<kApart>(q, k, rows, keys);
  clear<kOfAll>(scores);
  Fragments now, next;
#pragma unroll
  for (int c = -1; c < kSteps; ++c) {
    if (c + 1 < kSteps) {
      load_rows<kApart>(next.rows, q, c + 1);
#pragma unroll
      for (int n = 0; n < kKeyTiles; n += 2) load_keys<kApart>(next.keys[n / 2], k, c + 1, n);
    }
    if (c >= 0) {
      __syncwarp();
#pragma unroll
      for (int n = 0; n < kKeyTiles; n += 2) multiply_keys<kOfAll>(scores, now.rows, now.keys[n / 2], n);
    }
    now = next;
  }
}

template <bool kPlain, int kPart>
__device__ __forceinline__ void multiply_part(Shared& s, const Block& block, Scores& scores) {
  constexpr int kApart = kBytesOf<kPart>, kOfRow = kDimOf<kPart>;
  const unsigned char *const rows = rows_of_tile<kPart>(s), *const keys = rows_of_keys<kPart>(s) + stage_of(block);
  if constexpr (kPlain && kTransposed && (kOfRow > 64 || kTilesEach > 1)) {
    multiply_in_steps<kApart, (kOfRow + 15) / 16>(scores, rows, keys);
  } else if constexpr (kPlain) {
    multiply_rows<kOfAll, kApart, kOfRow>(scores, rows, keys);
  } else {
    if (kTilesEach > 1) forget(scores);  // nobody sums up what a tile without a pair has
    each_marked(block.is, [&](auto of) { multiply_rows<of.kTiles, kApart, kOfRow, 1>(scores, rows, keys); });
  }
}

/// P and dS as the sums want them take half the registers.
__device__ __forceinline__ void pack_all(Operands& to, const Scores& from) {
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
      to[i][n][0] = pack(from[i][n][0], from[i][n][1]);
      to[i][n][1] = pack(from[i][n][2], from[i][n][3]);
    }
  }
}

template <Of kOf, int kPart>
__device__ __forceinline__ void sum_part(Shared& s, State& st, const Block& block, const Operands& weights) {
  sum_rows<kOf, kBytesOf<kPart>>(part_of<kPart>(st), weights, block.is, rows_of_keys<kPart>(s) + stage_of(block));
}

/// Rows of keys with a NaN or an infinity, which must stay with the rows that keep them.
template <int kPart>
__device__ __forceinline__ void set_strange_apart(Shared& s, State& st, const Block& block) {
  unsigned char* const rows = rows_of_keys<kPart>(s) + stage_of(block);
  if (__syncthreads_or(find_strange<kBytesOf<kPart>, kTilesOf<kPart>>(rows)) == 0) return;
  add_strange<kBytesOf<kPart>>(part_of<kPart>(st), block.kept, count_of(block), rows);
}

/// Both products, and what they become, of the tiles that have a pair.
template <typename Pairs, bool kPlain>
__device__ __forceinline__ void find_gradients(const weft_args& a, Shared& s, const Block& block, Operands& weights,
                                               Operands& d_scores) {
  const Dropped<Pairs> dropped(a, s, block);  // before products need the registers
  Scores p, d;
  multiply_part<kPlain, 0>(s, block, p);
  multiply_part<kPlain, 1>(s, block, d);
  const float units = kScalesGradients ? get(s.units) : 1;
  each_gradient_of_pair<Pairs, !kPlain>(a, s, block, units, dropped, p, d,
                                        [](const PairGradient& of) { return make_float2(of.weight, of.d_score); });
  if constexpr (kTransposed) pack_all(weights, p);
  pack_all(d_scores, d);
}

template <typename Pairs>
__device__ __forceinline__ void compute_block(const weft_args& a, Shared& s, State& st, const Block& block) {
  Operands p, d;
  // Of plain blocks every pair of every tile counts.
  const bool plain = (block.is & (kMarkTiles | kMarkMasked)) == kMarkTiles;
  if (plain) {
    find_gradients<Pairs, true>(a, s, block, p, d);
  } else if (block.is & kMarkTiles) {
    find_gradients<Pairs, false>(a, s, block, p, d);
  }
  if (block.is & kMarkMasked) {
    __syncthreads();  // nobody reads for a product what may become 0
    set_strange_apart<0>(s, st, block);
    if constexpr (kTransposed) set_strange_apart<1>(s, st, block);
  }
  each_marked(block.is, [&](auto of) {
    if constexpr (kTransposed) sum_part<of.kTiles, 1>(s, st, block, p);
    sum_part<of.kTiles, 0>(s, st, block, d);
  });
}

template <typename Pairs>
__device__ __forceinline__ void compute_block(const weft_args& a, Shared& s, Deltas& st, const Block& block) {
  if ((block.is & kMarkTiles) == 0) return;
  const Dropped<Pairs> dropped(a, s, block);
  Scores p, d;
  multiply_part<false, 0>(s, block, p);
  multiply_part<false, 1>(s, block, d);
  each_gradient_of_pair<Pairs, true>(a, s, block, 1, dropped, p, d,
                                     [](const PairGradient& of) { return make_float2(of.plain, of.share); });
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    if ((block.is & kMarkTile << i / 2) == 0) continue;
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
      st.l[i] += p[i / 2][n][i % 2 * 2] + p[i / 2][n][i % 2 * 2 + 1];
      st.e[i] += d[i / 2][n][i % 2 * 2] + d[i / 2][n][i % 2 * 2 + 1];
    }
  }
}
