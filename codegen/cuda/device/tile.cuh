#pragma once

#include "codegen/cuda/device/keys.cuh"

// One tile of rows, from its number to what it says of itself.

/// Of a row: those that O is a sum of, and those that only have an LSE.
__device__ __forceinline__ int softmaxes(const weft_args& a) {
  return kSeveralSoftmaxes ? (int)word(a.tables + word(a.tables + 1 + a.phase)) : 1;
}

/// Where keys are cut, several blocks of threads, one behind the other, compute a tile, each one softmax of a chunk: the
/// tile's number, …
__device__ __forceinline__ int tile_of_block(const weft_args& a) {
  return kCutsKeys ? divided((int)blockIdx.x, a.of_shares) : (int)blockIdx.x;
}
/// … and which of them the block is.
__device__ __forceinline__ unsigned share_of_block(const weft_args& a) {
  return kCutsKeys ? blockIdx.x - (unsigned)tile_of_block(a) * (unsigned)a.of_shares.by : 0;
}

/// How many chunks the keys of an entry's rows are cut into. Of entries that differ some may not be cut, …
__device__ __forceinline__ int chunks_of(const weft_args& a, int b) {
  return (int)(a.chunks_of_entry != nullptr ? word(a.chunks_of_entry + (2 * b + 1)) >> 32 : a.chunks);
}
/// … and then the first block of threads of a tile does all of it, as in a launch that cuts none.
__device__ __forceinline__ bool is_cut(const weft_args& a, int b) {
  return kCutsKeys && a.chunks > 0 && (a.chunks_of_entry == nullptr || chunks_of(a, b) > 1);
}

/// Which (batch entry, head), which tile and which chunk of keys of it the block computes; its rows. False when it has
/// none. The tile's facts go to s.tile: registers are dear, and few ask for them while products are summed up.
__device__ __forceinline__ bool open_tile(const weft_args& a, Shared& s, const i64*& head) {
  // Each word of the tables names the next one, and L1 has none of them yet where no tile was before: a load of each of
  // the first lines, which nobody waits for, spares a wait for L2 at every step.
  const i64* const phase = a.tables + word(a.tables + 1 + a.phase);
  constexpr int kLine = 16;  // words
  const unsigned thread = thread_anew();
  const int ahead = thread < kLeastWords / kLine ? (int)word(a.tables + thread * kLine) : 0;
  Tile t;
  const int number = (int)a.tile_begin + tile_of_block(a);  // the launch has fewer than 2^31
  const int head_number = divided(number, a.of_tiles);
  // Of the heads that share keys and values, the pass of dK and dV takes one after another.
  const unsigned together = kTransposed ? (unsigned)heads_of_group(a) : heads_of_tile(a);
  t.b = divided(head_number, a.of_groups);
  t.h = (head_number - t.b * (int)a.of_groups.by) * (int)together + (kTransposed ? (int)a.group_begin : 0);
  int n_q = (int)a.n_q, n_k = (int)a.n_k;
  t.first_row = 0;
  if (a.entries != nullptr) {
    const int4 entry = load_global<int4>(a.entries + t.b);
    n_q = is_of_launch(a, entry.x) ? entry.x : 0;
    n_k = entry.y;
    t.first_row = kTransposed ? entry.w : entry.z;
  }
  t.offset = position_of_rows(a, t.b);
  t.first_query = kTransposed ? first_position(a, t.b) : t.offset;
  t.key_begin = first_key(a, t.b);
  t.key_end = end_of_keys(a, t.b, n_q, n_k);
  if (kCutsKeys && a.chunks > 0) {
    const i64* const of_entry = a.chunks_of_entry + 2 * t.b;
    const int first = (int)(a.chunks_of_entry != nullptr ? word(of_entry) : a.chunk_first);
    const unsigned keys = (unsigned)(a.chunks_of_entry != nullptr ? word(of_entry + 1) : a.chunk_keys);
    const unsigned each = kSeveralSoftmaxes && is_cut(a, t.b) ? (unsigned)softmaxes(a) : 1;
    const unsigned chunk = share_of_block(a) / each;
    // Other entries may have more chunks: blocks behind the last one of this have no row.
    if ((int)chunk >= chunks_of(a, t.b)) n_q = 0;
    t.key_begin = (int)min(first + (i64)((u64)chunk * keys), (i64)n_k);
    t.key_end = (int)min(t.key_begin + (i64)keys, (i64)n_k);
  }
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      if ((kLengths >> i & 1) == 0) continue;
      const int* const data = (const int*)a.inputs[i].data;
      put(s.inputs[i], load_global<int>(data + times(t.b, a.inputs[i].strides[0])));
    }
  }
  head = a.tables + word(phase + 2 + t.h);
  make_rows(a, s, t, head, kTransposed ? n_k : n_q, (int)a.tile_first + number - head_number * (int)a.tiles_per_head,
            word(phase + 1) != 0);
  kept(ahead);
  if (t.from == t.to) return false;
  if (kConditions > 0) describe_conditions(a, s, t);
  if (threadIdx.x == 0) {
    s.tile = t;
    if (!kGradient) put(s.walk.again, 0);
  }
  __syncthreads();
  return true;
}

/// Where a tensor's rows of a batch entry and head begin; `first`: the first of a sequence in a packed tensor.
__device__ __forceinline__ const unsigned char* origin(const weft_view& view, int b, int h, int first) {
  const i64 element = times(b, view.stride_b) + times(h, view.stride_h) + times(first, view.stride_n);
  return (const unsigned char*)view.data + element * kBytes<kStored>;
}

/// What is zero where rows from `base` on may be accessed `bytes` at a time.
__device__ __forceinline__ unsigned misalignment(const unsigned char* base, i64 step, int bytes) {
  return ((unsigned)(u64)base | (unsigned)step) & (bytes - 1);
}
