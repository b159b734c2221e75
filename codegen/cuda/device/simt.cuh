#pragma once

#include "codegen/cuda/device/mask.cuh"

// The two products of a block of keys and the softmax between them, in f32 on the plain lanes. A block of 128 threads
// computes 64 rows × 64 keys: a thread 8 rows × 4 keys of S, and 8 rows × 1/16 of the columns of O. A warp owns 16
// whole rows, so that P and the softmax stay inside it.

constexpr int kColumnsEach = kColumns / 16;
constexpr int kFours = kColumnsEach / 4;           // groups of 64 columns, four to a lane
constexpr bool kTwo = (kColumnsEach & 2) != 0;     // a group of 32 columns, two to a lane
constexpr bool kSingle = (kColumnsEach & 1) != 0;  // a group of 16 columns, one to a lane

/// Below every score but minus infinity, so that 2^(score - m) needs no care for rows without keys.
constexpr float kLowest = -3.40282347e38f;

/// What a pattern says of single pairs. Kernels with more to say than this bring a struct of their own, in which
///   score(a, t, s, q, k) is the score of a pair whose scaled product is `s`, and stands in the text as often as
///     kKeysAtOnce * kRowsAtOnce says;
///   drop(a, s, t, from, count) drops weights of a block.
struct PlainPairs {
  static constexpr bool kScored = false, kDrops = false;
};

struct State {
  float o[kRowsEach][kColumnsEach];
  float m[kRowsEach];  // largest score so far, in units of log 2
  float l[kRowsEach];  // sum of weights: this thread's keys only
};

__device__ __forceinline__ void clear(State& st) {
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    st.m[r] = kLowest;
    st.l[r] = 0;
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) st.o[r][c] = 0;
  }
}

/// Of V and O: how many of the four columns from this one on there are.
__device__ __forceinline__ int in_four(int column) { return kDimV % 4 == 0 ? 4 : min(4, kDimV - column); }

/// Where Q, K and V of the tile's batch entry and head begin, in bytes, and how far rows are apart.
struct Views {
  const unsigned char *q, *k, *v;
  i64 q_step, k_step, v_step;
  bool aligned;      // may be read four elements at a time
  const int* pages;  // of a K and V in pages: the entry's row of the table …
  int page_size;     // … tokens of a page, and how far pages are apart
  i64 k_page, v_page;
};

__device__ __forceinline__ const unsigned char* origin(const weft_view& view, int b, int h) {
  return (const unsigned char*)view.data + (times(b, view.stride_b) + times(h, view.stride_h)) * kBytes<kStored>;
}

/// What is zero where a view may be accessed four elements at a time.
__device__ __forceinline__ unsigned misalignment(const unsigned char* base, i64 step) {
  return ((unsigned)(u64)base | (unsigned)step) & (4 * kBytes<kStored> - 1);
}

__device__ __forceinline__ Views open_views(const weft_args& a, const Tile& t) {
  const int kv_head = t.h / ((int)a.heads / (int)a.kv_heads);
  Views w;
  w.q = origin(a.q, t.b, t.h);
  w.k = origin(a.k, kPaged ? 0 : t.b, kv_head);
  w.v = origin(a.v, kPaged ? 0 : t.b, kv_head);
  w.q_step = a.q.stride_n * kBytes<kStored>;
  w.k_step = a.k.stride_n * kBytes<kStored>;
  w.v_step = a.v.stride_n * kBytes<kStored>;
  w.aligned = kDim % 4 == 0 && kDimV % 4 == 0 &&
              (misalignment(w.q, w.q_step) | misalignment(w.k, w.k_step) | misalignment(w.v, w.v_step)) == 0;
  if (kPaged) {
    w.pages = a.pages + times(t.b, a.page_stride);
    w.page_size = (int)a.page_size;
    w.k_page = a.k.stride_b * kBytes<kStored>;
    w.v_page = a.v.stride_b * kBytes<kStored>;
    w.aligned = w.aligned && (misalignment(w.k, w.k_page) | misalignment(w.v, w.v_page)) == 0;
  }
  return w;
}

/// How far key's row lies behind the view's first.
__device__ __forceinline__ i64 row_offset(const Views& w, int key, i64 step, i64 page_step) {
  if (!kPaged) return times(key, step);
  const int page = key / w.page_size;
  return times(load_global<int>(w.pages + page), page_step) + times(key - page * w.page_size, step);
}

/// Columns [column, column + kDepth) of one row per two threads, transposed into shared memory; zeros behind the last.
/// Two lanes read neighbouring fours of a row; 4 * stride = 16 modulo 32 keeps their stores apart.
__device__ __forceinline__ void stage_columns(float* to, int stride, const unsigned char* row, int column) {
  static_assert(4 * kRowStride % 32 == 16 && 4 * kKeyStride % 32 == 16);
#pragma unroll
  for (int i = 0; i < kDepth / 8; ++i) {
    const int c = (int)(threadIdx.x % 2 + 2 * i) * 4;
    const bool inside = kDim % kDepth == 0 || column + c < kDim;
    const float4 x = inside ? load4<kStored>(row + (column + c) * kBytes<kStored>) : make_float4(0, 0, 0, 0);
    float* const at = to + c * stride + threadIdx.x / 2;
    store_shared(at, x.x);
    store_shared(at + stride, x.y);
    store_shared(at + 2 * stride, x.z);
    store_shared(at + 3 * stride, x.w);
  }
}

/// The same of Q and K where one of them starts or steps anywhere.
__device__ __forceinline__ void stage_each_column(float* q, const unsigned char* q_row, float* k,
                                                  const unsigned char* k_row, int column) {
#pragma unroll 1
  for (int c = threadIdx.x % 2; c < kDepth; c += 2) {
    const bool inside = kDim % kDepth == 0 || column + c < kDim;
    const int at = (column + c) * kBytes<kStored>;
    store_shared(q + c * kRowStride + threadIdx.x / 2, inside ? load1<kStored>(q_row + at) : 0);
    store_shared(k + c * kKeyStride + threadIdx.x / 2, inside ? load1<kStored>(k_row + at) : 0);
  }
}

using Scores = float[kRowsEach][kKeysEach];

__device__ __forceinline__ void add_scores(const float* q, const float* k, Scores& scores) {
#pragma unroll 4
  for (int c = 0; c < kDepth; ++c) {
    float rows[kRowsEach], keys[kKeysEach];
    unpack(&rows[0], load_shared<float4>(q + c * kRowStride + row_group() * kRowsEach));
    unpack(&rows[4], load_shared<float4>(q + c * kRowStride + row_group() * kRowsEach + 4));
    unpack(keys, load_shared<float4>(k + c * kKeyStride + lane_of_row() * kKeysEach));
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) scores[r][j] = __fmaf_rn(rows[r], keys[j], scores[r][j]);
    }
  }
}

/// S = Q K^T. Keys behind the block's last repeat it; `busy` is false in warps whose rows keep nothing here.
__device__ __forceinline__ void multiply_scores(Shared& s, const Views& w, const Tile& t, int from, int count,
                                                bool busy, Scores& scores) {
  const int mine = threadIdx.x / 2;
  const unsigned char* const q_row = w.q + times(get(s.x[mine]) - t.offset, w.q_step);
  const unsigned char* const k_row = w.k + row_offset(w, get(s.key[from + min(mine, count - 1)]), w.k_step, w.k_page);
  float* const q = s.stage;
  float* const k = s.stage + kDepth * kRowStride;
#pragma unroll 1
  for (int column = 0; column < kDim; column += kDepth) {
    __syncthreads();
    if (w.aligned) {
      stage_columns(q, kRowStride, q_row, column);
      stage_columns(k, kKeyStride, k_row, column);
    } else {
      stage_each_column(q, q_row, k, k_row, column);
    }
    __syncthreads();
    if (busy) add_scores(q, k, scores);
  }
}

/// The largest over the 16 lanes that share a row. A NaN loses, and reaches its row through the sum.
__device__ __forceinline__ float largest_of_row(float x) {
#pragma unroll
  for (int apart = 1; apart < 16; apart *= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, apart));
  return x;
}

__device__ __forceinline__ float sum_of_row(float x) {
#pragma unroll
  for (int apart = 1; apart < 16; apart *= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, apart);
  return x;
}

/// New maxima; what was summed before is scaled where one moved. From here on m is what weights are measured from.
__device__ __forceinline__ void raise_maxima(State& st, const Scores& scores) {
  float scale[kRowsEach];
  bool moved = false;
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const float top = largest_of_row(fmaxf(fmaxf(scores[r][0], scores[r][1]), fmaxf(scores[r][2], scores[r][3])));
    const float m = fmaxf(st.m[r], top);
    scale[r] = exp2_approx(st.m[r] - m);
    moved = moved || st.m[r] != m;
    st.m[r] = m;
  }
  if (!__any_sync(0xFFFFFFFFu, moved)) return;
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    st.l[r] *= scale[r];
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) st.o[r][c] *= scale[r];
  }
}

/// How many branches keep each of the thread's pairs; -0 where none does.
__device__ __forceinline__ void load_weights(Shared& s, int from, int count, bool partial, Scores& weights) {
#pragma unroll
  for (int j = 0; j < kKeysEach; ++j) {
    const int key = lane_of_row() * kKeysEach + j;
    float of_key[kRowsEach];
    if (partial) {
      unpack(&of_key[0], load_shared<float4>(weight_at(s, key, row_group() * 2)));
      unpack(&of_key[4], load_shared<float4>(weight_at(s, key, row_group() * 2 + 1)));
    } else {
      of_key[0] = key < count ? get(s.key_weight[from + key]) : -0.0f;
#pragma unroll
      for (int r = 1; r < kRowsEach; ++r) of_key[r] = of_key[0];
    }
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) weights[r][j] = of_key[r];
  }
}

/// P = weight * 2^(score - m). Pairs that are not kept get -0, as their weight is, which no kept pair can have: see
/// multiply_values.
__device__ __forceinline__ void weigh_scores(Shared& s, State& st, const Scores& scores, const Scores& weights) {
#pragma unroll
  for (int j = 0; j < kKeysEach; ++j) {
    float p[kRowsEach];
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
      p[r] = exp2_approx(scores[r][j] - st.m[r]) * weights[r][j];
      st.l[r] += p[r];
    }
    const int key = lane_of_row() * kKeysEach + j;
    store_shared(weight_at(s, key, row_group() * 2), make_float4(p[0], p[1], p[2], p[3]));
    store_shared(weight_at(s, key, row_group() * 2 + 1), make_float4(p[4], p[5], p[6], p[7]));
  }
}

/// Rows [first, first + kStaged) of V for the block's keys; zeros behind its last key and column. Returns whether this
/// thread met a NaN or an infinity (or sums that look like one).
__device__ __forceinline__ bool stage_values(Shared& s, const Views& w, int from, int count, int first) {
  bool strange = false;
  constexpr int kFoursARow = kColumns / 4;
#pragma unroll 2
  for (int i = threadIdx.x; i < kStaged * kFoursARow; i += kThreads) {
    const int key = first + i / kFoursARow, column = i % kFoursARow * 4;
    float4 v = make_float4(0, 0, 0, 0);
    if (key < count && column < kDimV) {
      const i64 row = row_offset(w, get(s.key[from + key]), w.v_step, w.v_page);
      v = load4<kStored>(w.v + row + column * kBytes<kStored>);
    }
    strange |= !(fabsf(v.x) + fabsf(v.y) + fabsf(v.z) + fabsf(v.w) < infinity());
    store_shared(&s.stage[i / kFoursARow * kColumns + column], v);
  }
  return strange;
}

/// The same, one element at a time.
__device__ __forceinline__ bool stage_each_value(Shared& s, const Views& w, int from, int count, int first) {
  bool strange = false;
#pragma unroll 1
  for (int i = threadIdx.x; i < kStaged * kColumns; i += kThreads) {
    const int key = first + i / kColumns, column = i % kColumns;
    float v = 0;
    if (key < count && column < kDimV) {
      const i64 row = row_offset(w, get(s.key[from + key]), w.v_step, w.v_page);
      v = load1<kStored>(w.v + row + column * kBytes<kStored>);
    }
    strange |= !(fabsf(v) < infinity());
    store_shared(&s.stage[i], v);
  }
  return strange;
}

/// One key's columns of V that belong to this lane.
__device__ __forceinline__ void load_columns(const float* row, float (&v)[kColumnsEach]) {
  const int lane = lane_of_row();
#pragma unroll
  for (int g = 0; g < kFours; ++g) unpack(&v[4 * g], load_shared<float4>(row + 64 * g + 4 * lane));
  if constexpr (kTwo) {
    const float2 two = load_shared<float2>(row + 64 * kFours + 2 * lane);
    v[4 * kFours] = two.x;
    v[4 * kFours + 1] = two.y;
  }
  if constexpr (kSingle) v[kColumnsEach - 1] = load_shared<float>(row + kColumns - 16 + lane);
}

/// Adds the staged keys' share of O. `guarded`: V holds a NaN or an infinity, which must stay with the rows that keep
/// its key.
template <bool kGuarded>
__device__ __forceinline__ void add_values(Shared& s, State& st, int first) {
#pragma unroll 1
  for (int i = 0; i < kStaged; i += kKeysEach) {
    // Rows of P change places alike for four keys.
    const float* const low = weight_at(s, first + i, row_group() * 2);
    const float* const high = weight_at(s, first + i, row_group() * 2 + 1);
#pragma unroll(kGuarded ? 1 : kKeysEach)
    for (int j = 0; j < kKeysEach; ++j) {
      float p[kRowsEach], v[kColumnsEach];
      unpack(&p[0], load_shared<float4>(low + j * kRows));
      unpack(&p[4], load_shared<float4>(high + j * kRows));
      load_columns(&s.stage[(i + j) * kColumns], v);
#pragma unroll
      for (int r = 0; r < kRowsEach; ++r) {
        const bool kept = !kGuarded || __float_as_uint(p[r]) != 0x80000000u;
#pragma unroll
        for (int c = 0; c < kColumnsEach; ++c) st.o[r][c] = __fmaf_rn(p[r], kept ? v[c] : 0, st.o[r][c]);
      }
    }
  }
}

/// O += P V.
__device__ __forceinline__ void multiply_values(Shared& s, State& st, const Views& w, int from, int count, bool busy) {
#pragma unroll 1
  for (int first = 0; first < count; first += kStaged) {
    __syncthreads();
    const bool strange =
        w.aligned ? stage_values(s, w, from, count, first) : stage_each_value(s, w, from, count, first);
    const bool guarded = __syncthreads_or(strange) != 0;
    if (!busy) continue;
    if (guarded) {
      add_values<true>(s, st, first);
    } else {
      add_values<false>(s, st, first);
    }
  }
}

/// Puts the pattern's score into the place of the scaled products. Loops that are not unrolled turn the registers by
/// one, because an index would put them on the stack.
template <typename Pairs>
__device__ __forceinline__ void apply_score(const weft_args& a, Shared& s, const Tile& t, int from, int count,
                                            Scores& scores) {
  const float scale = (float)a.scale;
#pragma unroll(Pairs::kKeysAtOnce)
  for (int j = 0; j < kKeysEach; ++j) {
    const int k = get(s.key[from + min(lane_of_row() * kKeysEach + j, count - 1)]);
    float column[kRowsEach];
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) column[r] = scores[r][0];
#pragma unroll(Pairs::kRowsAtOnce)
    for (int r = 0; r < kRowsEach; ++r) {
      const float score = Pairs::score(a, t, column[0] * scale, get(s.x[row_group() * kRowsEach + r]), k);
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

/// One block of keys: the `count` from number `from` of the list on.
template <typename Pairs>
__device__ __forceinline__ void attend_block(const weft_args& a, Shared& s, State& st, const Views& w, const Tile& t,
                                             const i64* pass, int terms, int from, int count, bool partial) {
  bool busy = true;
  if (partial) {
    busy = weigh_pairs(a, s, t, pass, terms, from, count);
    if (__syncthreads_or(busy) == 0) return;
  }
  Scores scores = {};
  multiply_scores(s, w, t, from, count, busy, scores);
  if (busy) {
    constexpr float kToBaseTwo = 1.44269504088896341f;
    if constexpr (Pairs::kScored) apply_score<Pairs>(a, s, t, from, count, scores);
    const float scale = Pairs::kScored ? kToBaseTwo : (float)a.scale * kToBaseTwo;
    Scores weights;
    load_weights(s, from, count, partial, weights);
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) {
        scores[r][j] = weights[r][j] != 0 ? scores[r][j] * scale : -infinity();
      }
    }
    raise_maxima(st, scores);
    weigh_scores(s, st, scores, weights);
    if constexpr (Pairs::kDrops) Pairs::drop(a, s, t, from, count);
  }
  multiply_values(s, st, w, from, count, busy);
  __syncthreads();
}
