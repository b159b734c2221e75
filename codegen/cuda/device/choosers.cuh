#pragma once

#include "codegen/cuda/device/lists.cuh"

// Who chose a block of keys: lists the other way round. A block of keys has a bit for every so many rows of blocks, as
// many that it has 1,024 of them at most, however long the sequence. `count` is how many rows a bit has, a power of two.

/// One unit: a word of each block of keys. A warp has the rows of a byte, one after the other, and a row names a block once:
/// no two threads write the same byte at a time.
__device__ __forceinline__ void fill_choosers(const weft_args& a, const weft_list& chosen, const weft_list& choosers,
                                              int block_size) {
  const ListRow words = open_row(a, choosers, block_size);
  const int bits = 31 - __clz(words.count), warp = threadIdx.x / 32;
#pragma unroll 1
  for (int i = threadIdx.x; i < words.blocks; i += kPrepassThreads) set_place(words, i, 0);
  __syncthreads();
  const int of_byte = words.row * 4 + warp;
  const int first = max(of_byte * 8 << bits, (int)chosen.first_row);
  const int end = min((of_byte + 1) * 8 << bits, (int)(chosen.first_row + chosen.rows));
#pragma unroll 1
  for (int row = first; row < end; ++row) {
    const int* const places = chosen.data + (words.b * chosen.stride_b + words.h * chosen.stride_h + row * chosen.stride_row);
    // fault(choosers_one_bit_aside) value: 1u << ((row >> bits) + 1 & 7)
    const unsigned bit = 1u << (row >> bits & 7);
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < (int)chosen.count; i += 32) {
      const int block = load_written<int>(places + i);
      if (block == kLargest) continue;
      unsigned char* const to = (unsigned char*)(words.places + block) + warp;
      store_global<unsigned char>(to, (unsigned char)(load_written<unsigned char>(to) | bit));
    }
    __syncwarp();
  }
}
