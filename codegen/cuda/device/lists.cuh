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
