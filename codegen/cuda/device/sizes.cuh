#pragma once

#include "codegen/cuda/device/block.cuh"
#include "compiler/walk/chunks.h"

// What each entry of a batch is, where its sizes stand in the GPU's memory: a thread takes an entry, and later kernels
// read what it finds as if the host had brought it. Whatever stands there, no memory is touched but the launch's.

/// Positions of rows lie no farther: expressions count so far.
constexpr int kFarthest = 1 << 29;

struct WordOfTables {
  __device__ i64 operator()(const i64* at) const { return word(at); }
  __device__ i64 floor_to(i64 x, i64 divisor) const { return ::floor_to((int)x, divisor); }
};

/// Rows of a packed tensor, from one border to the next.
struct Borders {
  int first, count;
};
__device__ __forceinline__ Borders borders_of(const int* cu, int b, i64 rows, i64 most) {
  const i64 first = min(max((i64)load_global<int>(cu + b), (i64)0), rows);
  const i64 end = min((i64)load_global<int>(cu + (b + 1)), rows);
  return {(int)first, (int)min(max(end - first, (i64)0), most)};
}

extern "C" __global__ void __launch_bounds__(kThreads) weft_sizes(const weft_args a) {
  const weft_sizes_at& at = a.sizes;
#pragma unroll 1
  for (int b = (int)threadIdx.x; b < (int)a.batch; b += kThreads) {
    Borders q = {0, (int)a.n_q}, k = {0, (int)a.n_k};
    if (at.cu_q != nullptr) q = borders_of(at.cu_q, b, at.rows_q, a.n_q);
    if (at.cu_k != nullptr) k = borders_of(at.cu_k, b, at.rows_k, a.n_k);
    if (at.kv_lengths != nullptr) k.count = min(max(load_global<int>(at.kv_lengths + b), 0), k.count);
    i64 first = k.count - q.count;
    if (at.offsets != nullptr)
      first = min(max(load_global<i64>(at.offsets + b), -(i64)kFarthest), (i64)kFarthest - q.count);
    store_global((int4*)a.entries + b, make_int4(q.count, k.count, q.first, k.first));
    store_global((i64*)a.offsets + b, first);
    if (!kCutsKeys || a.chunks_of_entry == nullptr) continue;
    const i64* const cuts = a.tables + word(a.tables + (1 + word(a.tables)));
    const auto cut = chunks::of_rows(WordOfTables(), cuts, {first, q.count, k.count});
    i64* const to = (i64*)a.chunks_of_entry + 2 * b;
    store_global(to, cut.first);
    store_global(to + 1, cut.keys + (cut.count << 32));
  }
}
