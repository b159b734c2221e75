#pragma once

#include "codegen/cuda/device/block.cuh"

// Of tiles of keys, which walk over queries: where the next of them are that may have chosen a key. Layout: choosers.cuh.

/// The first of the rows of blocks, from this one on, that may have chosen the block of keys, or kLargest.
__device__ __forceinline__ int next_chooser(const weft_list& choosers, const Tile& t, i64 key_block, int row) {
  const int bits = 31 - __clz((int)choosers.count), end = (int)(choosers.first_row + choosers.rows);
  const int* const words = choosers.data + (t.b * choosers.stride_b + t.h * choosers.stride_h + key_block);
  int word = row >> bits + 5;
  // fault(choosers_of_this_row_left_out) value: ~1u << (row >> bits & 31)
  unsigned from = ~0u << (row >> bits & 31);
#pragma unroll 1
  for (; word < end; ++word) {
    const unsigned set = load_written<unsigned>(words + word * choosers.stride_row) & from;
    if (set != 0) return max(row, (word * 32 + __ffs((int)set) - 1) << bits);
    // fault(choosers_of_further_words_lost) leaves this out
    from = ~0u;
  }
  return kLargest;
}
