#pragma once

#include "codegen/cuda/device/skips.cuh"

// Summaries of conditions (ir::List in compiler/ir/plan.h): the prepass fills them, and tiles ask them which blocks of
// keys no row keeps. Layouts: runtime/engine/lists.h.

constexpr int kMostRowBlocks = 8;  // rows that lie further apart say too little together

/// As summaries hold values of keys.
__device__ __forceinline__ int stored_key(i64 v) { return (int)min(max(v, -(i64)kLargest - 1), (i64)kLargest); }

__device__ __forceinline__ int* summary_of(const weft_list& list, const Tile& t) {
  return list.data + (t.b * list.stride_b + t.h * list.stride_h);
}
__device__ __forceinline__ int key_blocks(const weft_args& a) {
  return (int)((a.n_k + kSummaryBlock - 1) / kSummaryBlock);
}

/// Does the summary tell of this block? Of queries, where they are walked over, it tells what it knows of keys at their
/// positions, which may lie before the first key or behind the last.
__device__ __forceinline__ bool is_told(const weft_args& a, int block, bool wide) {
  if (!kTransposed) return true;
  const int blocks = key_blocks(a);
  return block >= 0 && block < (wide ? (blocks + kSummaryBlock - 1) / kSummaryBlock : blocks);
}

/// By the least and the largest key of a block, or of kSummaryBlock blocks.
__device__ __forceinline__ bool span_may_meet(const weft_args& a, const weft_list& list, const Tile& t,
                                              const Condition& c, Use use, int block, bool wide) {
  if (use.negated) return true;
  // fault(summaries_read_behind_their_end) leaves this out
  if (!is_told(a, block, wide)) return true;
  const int* const span = summary_of(list, t) + 2 * (i64)(wide ? key_blocks(a) + block : block);
  return load_global<int>(span + 1) >= stored_key(get(c.lo)) && load_global<int>(span) <= stored_key(get(c.hi) - 1);
}

/// By what the pairs of a block of queries and one of keys say.
__device__ __forceinline__ bool pairs_may_meet(const weft_list& list, const Shared& s, const Tile& t, Use use, int block,
                                               bool wide) {
  const int first = floor_div(first_position_of_tile(s), kSummaryBlock), last = floor_div(t.last, kSummaryBlock);
  if (wide || last - first > kMostRowBlocks) return true;
  int bits = 0;
#pragma unroll 1
  for (int row = first; row <= last; ++row) {
    bits |= load_global<int>(summary_of(list, t) + (row * list.stride_row + block));
  }
  return (bits & (use.negated ? 2 : 1)) != 0;
}

// ---- the prepass ----

/// Which (batch entry, head) a block of threads has, and which unit of it: launches begin with number tile_end, and
/// there are tiles_per_head units of each.
__device__ __forceinline__ int open_unit(const weft_args& a, Tile& t, bool by_head) {
  const int units = (int)a.tiles_per_head;
  const int number = (int)a.tile_end + (int)blockIdx.x;
  const int head = number / units;
  t.b = by_head ? head / (int)a.heads : head;
  t.h = by_head ? head - t.b * (int)a.heads : 0;
  t.offset = t.first_query = first_position(a, t.b);
  return number - head * units;
}

constexpr int kPrepassWarps = kPrepassThreads / 32;
struct SummaryShared {
  int least[kPrepassWarps], most[kPrepassWarps];
};

struct Span {
  int least, most;
};
__device__ __forceinline__ Span joined(Span a, Span b) { return {min(a.least, b.least), max(a.most, b.most)}; }
__device__ __forceinline__ void store_span(int* to, Span span) {
  store_global<int>(to, span.least);
  store_global<int>(to + 1, span.most);
}

/// The keys of one block, two for each lane of a warp; those behind the last repeat it.
__device__ __forceinline__ Span span_of(const weft_args& a, const Tile& t, int condition, int block) {
  Span span = {kLargest, -kLargest - 1};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const i64 y = (i64)block * kSummaryBlock + 32 * half + threadIdx.x % 32;
    const int key = stored_key(key_of(a, t, condition, (int)min(y, a.n_k - 1)));
    span = joined(span, {key, key});
  }
  return {least_of<32>(span.least), most_of<32>(span.most)};
}

/// One unit: kSummaryBlock blocks of keys, and what they come to together.
__device__ __forceinline__ void fill_spans(const weft_args& a, SummaryShared& s, const weft_list& list, int condition,
                                           bool by_head) {
  Tile t = {};
  const int unit = open_unit(a, t, by_head);
  const int blocks = key_blocks(a), warp = threadIdx.x / 32;
  const int end = min((unit + 1) * kSummaryBlock, blocks);
  int* const to = summary_of(list, t);
  Span all = {kLargest, -kLargest - 1};
#pragma unroll 1
  for (int block = unit * kSummaryBlock + warp; block < end; block += kPrepassWarps) {
    const Span span = span_of(a, t, condition, block);
    if (threadIdx.x % 32 == 0) store_span(to + 2 * (i64)block, span);
    all = joined(all, span);
  }
  if (threadIdx.x % 32 == 0) {
    store_shared<int>(&s.least[warp], all.least);
    store_shared<int>(&s.most[warp], all.most);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int w = 1; w < kPrepassWarps; ++w) {
    all = joined(all, {load_shared<int>(&s.least[w]), load_shared<int>(&s.most[w])});
  }
  store_span(to + 2 * (i64)(blocks + unit), all);
}

/// Bit 0: some pair of the block meets the condition; bit 1: some fails it. By one warp.
__device__ __forceinline__ int bits_of_pairs(const weft_args& a, const Tile& t, int condition, int first_q, int end_q,
                                             int block) {
  int bits = 0;
#pragma unroll 1
  for (int q = first_q; q < end_q && bits != 3; ++q) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const i64 y = (i64)block * kSummaryBlock + 32 * half + threadIdx.x % 32;
      const unsigned met = __ballot_sync(0xFFFFFFFFu, holds(a, t, condition, q, (int)min(y, a.n_k - 1)));
      bits |= (met != 0 ? 1 : 0) | (met != 0xFFFFFFFFu ? 2 : 0);
    }
  }
  return bits;
}

/// One unit: a row of blocks.
__device__ __forceinline__ void fill_meets(const weft_args& a, const weft_list& list, int condition, bool by_head) {
  Tile t = {};
  const int row = open_unit(a, t, by_head) + (int)a.tile_begin;
  const int first_q = max(row * kSummaryBlock, t.offset);
  const int end_q = (int)min((i64)(row + 1) * kSummaryBlock, t.offset + a.n_q);
  int* const to = summary_of(list, t) + row * list.stride_row;
#pragma unroll 1
  for (int block = threadIdx.x / 32; block < key_blocks(a); block += kPrepassWarps) {
    const int bits = bits_of_pairs(a, t, condition, first_q, end_q, block);
    if (threadIdx.x % 32 == 0) store_global<int>(to + block, bits);
  }
}
