#pragma once

#include "codegen/cuda/device/lists.cuh"

// What `top` chooses: semantics section 8. A block of threads takes kListedRows rows of blocks, which read the means of keys
// together: of kPrepassThreads blocks of keys at a time each thread scores one for all rows, then each warp takes those of
// its rows in that belong to the best so far, one after the other, as far as any does.

constexpr int kRowsOfWarp = kListedRows / (kPrepassThreads / 32);

__device__ __forceinline__ float element(const weft_view& view, i64 at) {
  const unsigned char* const from = (const unsigned char*)view.data + at * kBytes<kStored>;
  if constexpr (kStored == Element::f32) {
    return load_global<float>(from);
  } else {
    return from_bits<kStored>(load_global<unsigned short>(from));
  }
}

/// Where key n of a batch entry begins, in elements: in pages, or one behind the other.
__device__ __forceinline__ i64 key_row(const weft_args& a, const weft_view& view, int b, i64 n) {
  if (!kPaged) return b * view.stride_b + n * view.stride_n;
  const i64 page = page_number(a, b, n / a.page_size);
  return page * view.stride_b + n % a.page_size * view.stride_n;
}

/// The mean of rows [begin, end), of which `at(n)` says where row n has the column; 0 of none.
template <typename At>
__device__ __forceinline__ float mean_of(const weft_view& view, i64 begin, i64 end, const At& at) {
  float sum = 0;
#pragma unroll 8
  for (i64 n = begin; n < end; ++n) sum += element(view, at(n));
  return begin < end ? sum * reciprocal_approx((float)(end - begin)) : 0;  // a division may call, for which ptxas spills
}

/// Means of the key blocks, one for each block of threads: [B, H_kv, d, blocks] at the front of the scratch.
__device__ __forceinline__ void pool_keys(const weft_args& a, int block_size) {
  const int blocks = (int)((a.n_k + block_size - 1) / block_size);
  const int number = (int)a.tile_end + (int)blockIdx.x;
  const int head = number / blocks, block = number - head * blocks;
  const int b = head / (int)a.kv_heads, h = head - b * (int)a.kv_heads;
  const i64 begin = (i64)block * block_size, end = min(begin + block_size, a.n_k);
  for (int c = (int)threadIdx.x; c < kDim; c += kPrepassThreads) {
    const float mean = mean_of(a.k, begin, end, [&](i64 n) { return key_row(a, a.k, b, n) + h * a.k.stride_h + c; });
    store_global<float>((float*)a.scratch + (((i64)head * kDim + c) * blocks + block), mean);
  }
}

struct ListShared {
  float query[kDim][kListedRows];  // means of the rows' queries
  float score[kListedRows][kPrepassThreads];
};

/// The rows of a block of threads: those of `first`, and so many behind it.
struct ListRows {
  ListRow first;
  int count;
  i64 apart;    // from the places of a row to those of the next
  float* best;  // scores of what stands in the places of the first row, in scratch memory; others follow
  __device__ __forceinline__ int* places_of(int r) const { return first.places + r * apart; }
  __device__ __forceinline__ float* best_of(int r) const { return best + r * first.count; }
};

__device__ __forceinline__ ListRows open_rows(const weft_args& a, const weft_list& list, int block_size) {
  ListRows rows = {open_row(a, list, block_size), 0, list.stride_row, nullptr};
  const int behind = (rows.first.row - (int)list.first_row) * kListedRows;  // units are counted from the list's first row on
  rows.first.row = (int)list.first_row + behind;
  rows.first.places = list.data + (rows.first.b * list.stride_b + rows.first.h * list.stride_h + rows.first.row * list.stride_row);
  rows.count = min(kListedRows, (int)list.rows - behind);
  const i64 head = (i64)rows.first.b * a.heads + rows.first.h;
  rows.best = (float*)a.scratch + (a.batch * a.kv_heads * rows.first.blocks * kDim + (head * list.rows + behind) * rows.first.count);
  return rows;
}

__device__ __forceinline__ void pool_queries(const weft_args& a, ListShared& s, const ListRows& rows, int block_size) {
  const ListRow& row = rows.first;
  const i64 of_head = row.b * a.q.stride_b + row.h * a.q.stride_h;
#pragma unroll 1
  for (int i = (int)threadIdx.x; i < kListedRows * kDim; i += kPrepassThreads) {
    const int r = i / kDim, c = i % kDim;
    const i64 first = (i64)(row.row + r) * block_size - first_position(a, row.b);
    const i64 end = r < rows.count ? min(first + block_size, a.n_q) : 0;
    const float mean = mean_of(a.q, max(first, (i64)0), end, [&](i64 n) { return of_head + n * a.q.stride_n + c; });
    store_shared<float>(&s.query[c][r], mean);
  }
}

/// Of one block of keys, with all rows.
__device__ __forceinline__ void score_pooled(const weft_args& a, const ListShared& s, const ListRow& r, int block,
                                             float (&score)[kListedRows]) {
  // fault(keys_of_another_head) value: r.h % (int)a.kv_heads
  const int kv_head = kv_head_of(a, r.h);
  const float* key = (const float*)a.scratch + ((r.b * a.kv_heads + kv_head) * kDim * (i64)r.blocks + block);
#pragma unroll 8
  // fault(one_column_left_out) value: 8
  for (int c = 0; c < kDim; ++c, key += r.blocks) {
    const float of_key = load_written<float>(key);
#pragma unroll
    for (int i = 0; i < kListedRows; i += 4) {
      const float4 four = load_shared<float4>(&s.query[c][i]);
      score[i] += four.x * of_key;
      score[i + 1] += four.y * of_key;
      score[i + 2] += four.z * of_key;
      score[i + 3] += four.w * of_key;
    }
  }
}

__device__ __forceinline__ float given_score(const weft_input& given, const ListRow& r, int row, int block) {
  const i64 of_row = min(max((i64)row, (i64)0), given.extents[2] - 1);
  return load_global<float>((const float*)given.data + r.b * given.strides[0] + r.h * given.strides[1] +
                            of_row * given.strides[2] + block * given.strides[3]);
}

/// The places of a row as far as they are filled, by score, and the least of these scores. Up to 32 a lane has one each,
/// else they stand in memory.
template <bool kByLanes>
struct Best {
  int* places;
  float* scores;
  int count, filled;
  float worst;
  float score;
  int block;
};

/// What comes to a place, of those that a block is taken in by: what stands before it, the block, or what stands there.
struct Place {
  float score;
  int block;
};
__device__ __forceinline__ Place moved(int at, int last, Place before, Place here, Place taken, bool own, bool& follows) {
  follows = at > 0 && at <= last && (own || taken.score > before.score);
  if (follows) return before;
  if (own || at == last || taken.score > here.score) return {own ? infinity() : taken.score, taken.block};
  return here;
}

/// Takes a block in, its own row's before all others, of equal ones the earlier. By a warp.
template <bool kByLanes>
__device__ __forceinline__ void take_in(Best<kByLanes>& best, Place taken, bool own) {
  // fault(one_place_never_filled) instead: if (best.filled < best.count - 1) ++best.filled;
  if (best.filled < best.count) ++best.filled;
  const int last = best.filled - 1, lane = threadIdx.x % 32;
  bool follows;
  if constexpr (kByLanes) {
    const Place before = {__shfl_up_sync(0xFFFFFFFFu, best.score, 1), __shfl_up_sync(0xFFFFFFFFu, best.block, 1)};
    const Place now = moved(lane, last, before, {best.score, best.block}, taken, own, follows);
    best.score = now.score;
    best.block = now.block;
    best.worst = __shfl_sync(0xFFFFFFFFu, best.score, last);
  } else {
#pragma unroll 1
    for (int first = last / 32 * 32; first >= 0; first -= 32) {
      const int at = first + lane;
      Place before = {}, here = {};
      if (at > 0 && at <= last) before = {load_written<float>(best.scores + at - 1), load_written<int>(best.places + at - 1)};
      if (at < last) here = {load_written<float>(best.scores + at), load_written<int>(best.places + at)};
      const Place now = moved(at, last, before, here, taken, own, follows);
      __syncwarp();
      if (at <= last) {
        store_global<int>(best.places + at, now.block);
        store_global<float>(best.scores + at, now.score);
      }
      __syncwarp();
      if ((__ballot_sync(0xFFFFFFFFu, follows) & 1) == 0) break;
    }
    best.worst = load_written<float>(best.scores + last);
  }
}

/// Takes in what belongs there of the blocks from `first` on that have been scored.
template <bool kByLanes>
__device__ __forceinline__ void take_in_all(Best<kByLanes>& best, const float* scores, int first, int candidates, int row) {
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int part = first; part < min(first + kPrepassThreads, candidates); part += 32) {
    const int block = part + lane;
    const float score = load_shared<float>(scores + block - first);
    // fault(its_own_block_as_any_other) value: false
    const bool own = block == row;
    int taken = -1;  // the last lane whose block was
#pragma unroll 1
    while (true) {
      // fault(the_worst_kept) value: best.filled < best.count || own || score < best.worst
      const bool belongs = best.filled < best.count || own || score > best.worst;
      const unsigned left = __ballot_sync(0xFFFFFFFFu, belongs && lane > taken && block < candidates);
      if (left == 0) break;
      taken = __ffs((int)left) - 1;
      const float its_score = __shfl_sync(0xFFFFFFFFu, score, taken);
      take_in(best, {its_score, part + taken}, __shfl_sync(0xFFFFFFFFu, own ? 1 : 0, taken) != 0);
    }
  }
}

/// By a warp: places by number, those in memory by way of where their scores were.
template <bool kByLanes>
__device__ __forceinline__ void sort_places(const Best<kByLanes>& best) {
  const int lane = threadIdx.x % 32;
  int* const sorted = kByLanes ? best.places : (int*)best.scores;
#pragma unroll 1
  for (int first = 0; first < best.filled; first += 32) {
    const int i = first + lane, block = kByLanes ? best.block : i < best.filled ? load_written<int>(best.places + i) : 0;
    int rank = 0;
#pragma unroll 1
    for (int j = 0; j < best.filled; ++j) {
      const int other = kByLanes ? __shfl_sync(0xFFFFFFFFu, best.block, j) : load_written<int>(best.places + j);
      rank += other < block ? 1 : 0;
    }
    // fault(places_out_of_order) value: i
    const int place = rank;
    if (i < best.filled) store_global<int>(sorted + place, block);
  }
  __syncwarp();
#pragma unroll 1
  for (int i = lane; i < best.count; i += 32) {
    // fault(unused_places_not_marked) also: if (i >= best.filled) break;
    if (i >= best.filled) {
      store_global<int>(best.places + i, kLargest);
    } else if (!kByLanes) {
      store_global<int>(best.places + i, load_written<int>(sorted + i));
    }
  }
}

/// Lists of up to 32 places are made `kByLanes`.
template <bool kPooled, bool kByLanes>
__device__ __forceinline__ void choose_best(const weft_args& a, ListShared& s, const weft_list& list, int block_size, int input,
                                            bool causal) {
  const ListRows rows = open_rows(a, list, block_size);
  const ListRow& row = rows.first;
  if (kPooled) pool_queries(a, s, rows, block_size);
  __syncthreads();
  const auto candidates_of = [&](int r) {
    // fault(the_future_taken_in) value: causal ? min(max(row.row + r + 2, 0), row.blocks) : row.blocks
    const int candidates = causal ? min(max(row.row + r + 1, 0), row.blocks) : row.blocks;
    return candidates;
  };
  Best<kByLanes> best[kRowsOfWarp];
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) {
    const int r = min((int)threadIdx.x / 32 * kRowsOfWarp + i, rows.count - 1);
    best[i] = {rows.places_of(r), rows.best_of(r), row.count};
  }
  const int most = candidates_of(rows.count - 1);
#pragma unroll 1
  for (int first = 0; first < most; first += kPrepassThreads) {
    const int block = first + (int)threadIdx.x;
    float score[kListedRows] = {};
    if (kPooled && block < most) score_pooled(a, s, row, block, score);
#pragma unroll
    for (int r = 0; r < kListedRows; ++r) {
      if (!kPooled && r < rows.count && block < candidates_of(r)) score[r] = given_score(a.inputs[input], row, row.row + r, block);
      store_shared<float>(&s.score[r][threadIdx.x], score[r] == score[r] ? score[r] : -infinity());
    }
    // fault(scores_read_before_they_stand) leaves this out
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRowsOfWarp; ++i) {
      const int r = (int)threadIdx.x / 32 * kRowsOfWarp + i;
      if (r < rows.count) take_in_all(best[i], s.score[r], first, candidates_of(r), row.row + r);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kRowsOfWarp; ++i) {
    if ((int)threadIdx.x / 32 * kRowsOfWarp + i < rows.count) sort_places(best[i]);
  }
}
