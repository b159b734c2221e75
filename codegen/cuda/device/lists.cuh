#pragma once

#include "codegen/cuda/device/philox.cuh"

// The lists of key blocks that are chosen before the attention: see semantics sections 7 and 8. One block of threads
// fills the places of one row of blocks; what a row does not use holds kLargest.

struct ListRow {
  int b, h;
  int row;      // number of the block of queries
  int blocks;   // of keys
  int count;    // places
  int* places;
  float* best;  // scores of what stands in the places, in scratch memory
};

/// Which of its list's rows a block of threads has; launches begin with number tile_end, rows with number tile_begin,
/// and there are tiles_per_head of them for each head.
__device__ __forceinline__ ListRow open_row(const weft_args& a, const weft_list& list, int block_size) {
  const int rows = (int)a.tiles_per_head;
  const int number = (int)a.tile_end + (int)blockIdx.x;
  const int head = number / rows;
  ListRow r;
  r.b = head / (int)a.heads;
  r.h = head - r.b * (int)a.heads;
  r.row = (int)a.tile_begin + (number - head * rows);
  // fault(lists_of_the_first_head_alone) also: r.h = 0;
  r.blocks = (int)((a.n_k + block_size - 1) / block_size);
  r.count = (int)list.count;
  r.places = list.data + (r.b * list.stride_b + r.h * list.stride_h + r.row * list.stride_row);
  r.best = (float*)a.scratch + (a.batch * a.kv_heads * r.blocks * kDim + (i64)number * r.count);
  return r;
}

__device__ __forceinline__ int place(const ListRow& r, int i) { return load_written<int>(r.places + i); }
__device__ __forceinline__ void set_place(const ListRow& r, int i, int block) {
  store_global<int>(r.places + i, block);
}

/// Moves the places from i up to `end` one on.
__device__ __forceinline__ void make_room(const ListRow& r, int i, int end) {
  for (int at = end; at > i; --at) set_place(r, at, place(r, at - 1));
}

/// Floyd's sample, kept in order.
__device__ __forceinline__ void draw(const ListRow& r, u64 seed) {
  if (threadIdx.x != 0) return;
  int filled = 0;
  for (int j = r.blocks - r.count; j < r.blocks; ++j) {
    // fault(sample_of_the_next_row) value:
    //   philox(make_uint4((unsigned)j, (unsigned)r.row + 1, (unsigned)r.h, 0), seed).x
    const unsigned word = philox(make_uint4((unsigned)j, (unsigned)r.row, (unsigned)r.h, 0), seed).x;
    // fault(sample_of_one_head_for_all) value:
    //   (int)((u64)philox(make_uint4((unsigned)j, (unsigned)r.row, 0, 0), seed).x * (unsigned)(j + 1) >> 32)
    const int t = (int)((u64)word * (unsigned)(j + 1) >> 32);
    int at = 0;
    while (at < filled && place(r, at) < t) ++at;
    // fault(drawn_twice) value: false
    const bool taken = at < filled && place(r, at) == t;
    if (taken) at = filled;  // j lies behind all that were drawn before
    // fault(no_room_made) leaves this out
    make_room(r, at, filled);
    set_place(r, at, taken ? j : t);
    ++filled;
  }
}

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

/// Means of the key blocks, one for each block of threads: [B, H_kv, blocks, d] at the front of the scratch.
__device__ __forceinline__ void pool_keys(const weft_args& a, int block_size) {
  const int blocks = (int)((a.n_k + block_size - 1) / block_size);
  const int number = (int)a.tile_end + (int)blockIdx.x;
  const int head = number / blocks, block = number - head * blocks;
  const int b = head / (int)a.kv_heads, h = head - b * (int)a.kv_heads;
  const i64 begin = (i64)block * block_size, end = min(begin + block_size, a.n_k);
  for (int c = (int)threadIdx.x; c < kDim; c += kPrepassThreads) {
    float sum = 0;
    for (i64 n = begin; n < end; ++n) sum += element(a.k, key_row(a, a.k, b, n) + h * a.k.stride_h + c);
    store_global<float>((float*)a.scratch + ((i64)number * kDim + c), sum / (float)(end - begin));
  }
}

struct ListShared {
  float query[kDim];  // mean of the row's queries
  float score[kPrepassThreads];
};

__device__ __forceinline__ void pool_queries(const weft_args& a, ListShared& s, const ListRow& r, int block_size) {
  const i64 first = (i64)r.row * block_size - first_position(a, r.b);
  const i64 begin = max(first, (i64)0), end = min(first + block_size, a.n_q);
  for (int c = (int)threadIdx.x; c < kDim; c += kPrepassThreads) {
    float sum = 0;
    for (i64 n = begin; n < end; ++n) {
      sum += element(a.q, r.b * a.q.stride_b + n * a.q.stride_n + r.h * a.q.stride_h + c);
    }
    store_shared<float>(&s.query[c], begin < end ? sum / (float)(end - begin) : 0);
  }
}

__device__ __forceinline__ float pooled_score(const weft_args& a, const ListShared& s, const ListRow& r, int block) {
  // fault(keys_of_another_head) value: r.h % (int)a.kv_heads
  const int kv_head = kv_head_of(a, r.h);
  const float* const key = (const float*)a.scratch + ((r.b * a.kv_heads + kv_head) * r.blocks + block) * kDim;
  float sum = 0;
  // fault(one_column_left_out) value: 8
  for (int c = 0; c < kDim; ++c) sum += load_shared<float>(&s.query[c]) * load_written<float>(key + c);
  return sum;
}

__device__ __forceinline__ float given_score(const weft_input& given, const ListRow& r, int block) {
  const i64 row = min(max((i64)r.row, (i64)0), given.extents[2] - 1);
  return load_global<float>((const float*)given.data + r.b * given.strides[0] + r.h * given.strides[1] +
                            row * given.strides[2] + block * given.strides[3]);
}

/// Takes a block in where its score is among the best so far: the row's own first, of equal ones the earlier.
__device__ __forceinline__ void consider(const ListRow& r, int& filled, float score, int block) {
  // fault(its_own_block_as_any_other) value: false
  const bool own = block == r.row;
  // fault(the_worst_kept) instead:
  //   if (!own && filled == r.count && !(score < load_written<float>(r.best + filled - 1))) return;
  if (!own && filled == r.count && !(score > load_written<float>(r.best + filled - 1))) return;
  // fault(one_place_never_filled) instead: if (filled < r.count - 1) ++filled;
  if (filled < r.count) ++filled;
  int at = filled - 1;
  while (at > 0 && (own || score > load_written<float>(r.best + at - 1))) {
    set_place(r, at, place(r, at - 1));
    store_global<float>(r.best + at, load_written<float>(r.best + at - 1));
    --at;
  }
  set_place(r, at, block);
  store_global<float>(r.best + at, own ? infinity() : score);
}

__device__ __forceinline__ void sort_places(const ListRow& r, int filled) {
  for (int i = 1; i < filled; ++i) {
    const int block = place(r, i);
    int at = i;
    // fault(places_out_of_order) leaves this out
    while (at > 0 && place(r, at - 1) > block) {
      set_place(r, at, place(r, at - 1));
      --at;
    }
    set_place(r, at, block);
  }
  // fault(unused_places_not_marked) leaves this out
  for (int i = filled; i < r.count; ++i) set_place(r, i, kLargest);
}

/// The threads score kPrepassThreads blocks at a time; one of them keeps the best.
template <bool kPooled>
__device__ __forceinline__ void choose_best(const weft_args& a, ListShared& s, const ListRow& r, int block_size,
                                            int input, bool causal) {
  if (kPooled) pool_queries(a, s, r, block_size);
  __syncthreads();
  // fault(the_future_taken_in) value: min(max(r.row + 2, 0), r.blocks)
  const int candidates = causal ? min(max(r.row + 1, 0), r.blocks) : r.blocks;
  int filled = 0;
  for (int first = 0; first < candidates; first += kPrepassThreads) {
    const int block = first + (int)threadIdx.x;
    float score = -infinity();
    if (block < candidates) score = kPooled ? pooled_score(a, s, r, block) : given_score(a.inputs[input], r, block);
    store_shared<float>(&s.score[threadIdx.x], score == score ? score : -infinity());
    // fault(scores_read_before_they_stand) leaves this out
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 0; i < min(kPrepassThreads, candidates - first); ++i) {
        consider(r, filled, load_shared<float>(&s.score[i]), first + i);
      }
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) sort_places(r, filled);
}
