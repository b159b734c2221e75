#pragma once

#ifndef __CUDACC_RTC__
#include <cstdint>
#else
namespace std {
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long long;
using uint64_t = unsigned long long;
}  // namespace std
#endif

/// The argument block of every kernel, the same for CPU and CUDA. Plain words of eight bytes, so that
/// generated code addresses it by number; `abi` guards a stored kernel against a changed layout.
/// Strides count elements; the last dimension of a view is contiguous.

inline constexpr std::int64_t kWeftArgsAbi = 16;
inline constexpr int kWeftMostInputs = 16;
inline constexpr int kWeftMostLists = 4;

struct weft_view {
  void* data;
  std::int64_t stride_b, stride_n, stride_h;
};

struct weft_input {
  const void* data;
  std::int64_t strides[4];
  std::int64_t extents[4];
};

/// For each (batch entry, head, block of rows) the numbers of the key blocks that `random` or `top` chose, ascending;
/// what a row does not use of its `count` places holds the largest number. Summaries: runtime/engine/lists.h.
struct weft_list {
  std::int32_t* data;  ///< where row 0 would be
  std::int64_t stride_b, stride_h, stride_row;
  std::int64_t count;
  std::int64_t first_row, rows;  ///< number of the first row that it has, and how many
};

/// A sequence of a batch whose entries differ in length.
struct weft_entry {
  std::int32_t n_q, n_k;
  std::int32_t first_q, first_k;  ///< rows of packed tensors where it begins
};

/// Where the GPU's memory has the sizes of each entry, which then come to `entries`, `offsets` and `chunks_of_entry`:
/// codegen/cuda/device/sizes.cuh.
struct weft_sizes_at {
  const std::int32_t *cu_q, *cu_k;  ///< borders of packed sequences; null: not packed
  const std::int32_t* kv_lengths;   ///< null: all entries have n_k keys, or cu_k says
  const std::int64_t* offsets;      ///< null: n_k - n_q of each
  std::int64_t rows_q, rows_k;      ///< of packed tensors: no sequence lies behind them
};

/// What GPUs divide by: codegen/divisor.h makes one. An integer division takes a warp 20
/// instructions or more, this one 3.
struct weft_divisor {
  std::int64_t by;
  std::uint32_t factor, shift;  ///< of a number below 2^31 the quotient is (2 * number * factor >> 32) >> shift
};

struct weft_args {
  std::int64_t abi;
  std::int64_t batch, n_q, n_k, heads, kv_heads;
  /// Of n_q rows those that the launch computes; Q, O, LSE and `carry` have no others, `data` is where row 0 would be.
  /// Tiles, bounds and conditions go by all n_q, so that a row's bits do not tell which others were computed with it.
  std::int64_t row_begin, row_end;
  weft_view q, k, v, o;

  float* lse;  ///< [B, H, n_q]; null: not wanted
  std::int64_t lse_stride_b, lse_stride_h;
  float* branch_lse;  ///< [branches, B, H, n_q]; null: not wanted
  std::int64_t branch_lse_stride, branch_lse_stride_b, branch_lse_stride_h;

  const std::int64_t* offsets;  ///< position of row 0 per batch entry; null: `offset` for all
  std::int64_t offset;
  std::int64_t page_count;    ///< pages of a paged K/V: what its table may name
  const std::int32_t* pages;  ///< the table
  std::int64_t page_stride, page_size;

  double scale;
  std::uint64_t seed;
  const std::uint64_t* seed_at;

  const std::int64_t* tables;         ///< see compiler/walk/words.h
  std::int64_t most_terms;            ///< of any pass: the size of the scratch behind it
  std::int64_t phase;                 ///< which phase of the plan to run
  std::int64_t tile_first;            ///< number of the first row tile of a (batch, head) that holds such rows, …
  std::int64_t tiles_per_head;        ///< … and how many tiles do: the most of any head
  std::int64_t tile_begin, tile_end;  ///< of batch × heads / heads_per_tile × tiles_per_head; longest first in a head
  /// Query heads of one kv head whose rows stand in one tile, which then holds all rows of a sequence; mostly 1.
  std::int64_t heads_per_tile;

  /// Chunks of the keys of a row that the launch computes, or whose states it makes one of; 0: keys are not cut.
  std::int64_t chunks;
  std::int64_t chunk_slots;              ///< states that a row has in `carry`, of which those of the launch come first
  std::int64_t chunk_first, chunk_keys;  ///< the first chunk's first key, and keys of a chunk …
  /// … or for each batch entry its first key, and keys of a chunk + 2^32 times the number of chunks; null: all have the
  /// same.
  const std::int64_t* chunks_of_entry;
  std::int64_t carried_rows;  ///< of a head, that `carry` has room for
  std::int64_t chunk_merge;   ///< CPUs: 1: makes O and LSE of the states, or where there is no O the first of them

  float* carry;   ///< f32 state between launches: [B, H, rows, slots, softmaxes, d_v + 2] = acc, m, l
  void* scratch;  ///< CPU: of this call alone, 64-byte aligned; size: codegen/cpu/emit.h
  weft_input inputs[kWeftMostInputs];
  weft_list lists[kWeftMostLists];

  /// Of gradients, which read O and the LSE that the forward wrote. dQ has Q's rows, dO those of O.
  weft_view d_o, d_q, d_k, d_v;
  const float* d_lse;  ///< of the LSE, or with `sum` and `mean` of the branches'; null: 0
  std::int64_t d_lse_stride, d_lse_stride_b, d_lse_stride_h;
  /// GPUs: [B, softmaxes, H, rows computed, 2], f32, what the first step finds of each query for the others: see
  /// codegen/cuda/device/query_terms.cuh.
  float* query_terms;
  std::uint32_t* d_o_bounds;  ///< [B, kv heads], bits of an f32: the largest |dO| of the heads that share keys
  /// GPUs: of the query heads that share keys and values, those whose dK and dV the launch adds up.
  std::int64_t group_begin, group_end;
  /// GPUs: where the gradients of an input are added up, two words a number: codegen/cuda/device/input_sums.cuh.
  /// Row-major by the input's extents; null: nobody wants them.
  std::int64_t* input_sums[kWeftMostInputs];
  std::uint32_t* input_bounds;  ///< of each input the most that a thread adds up, as bits of an f32
  std::int64_t input_share;     ///< so many threads do, as a power of two
  std::int64_t input_step;      ///< InputStep of codegen/cuda/device/input_sums.cuh
  std::int64_t input_number;    ///< of which, where the step is about one
  weft_input d_input;           ///< where its gradient goes
  /// GPUs: of each batch entry its own sizes, where n_q, row_end and n_k are the most that any has; null: all have
  /// them.
  const weft_entry* entries;
  /// Of query_terms, in pairs of numbers: between batch entries, 0 where sequences are packed, and between heads.
  std::int64_t terms_stride_b, terms_stride_h;
  /// GPUs: entries with more queries than the first of these, and as many as the second or fewer, are the launch's;
  /// others of the batch another text computes.
  std::int64_t queries_above, queries_up_to;
  weft_sizes_at sizes;
  /// GPUs: of tiles_per_head; of the heads, or groups of those that stand in one tile, of a batch entry; of the query
  /// heads of one kv head; of page_size; of heads_per_tile; and of the blocks of threads that compute a tile, one for
  /// each softmax of a chunk, or one.
  weft_divisor of_tiles, of_groups, of_group, of_page, of_heads, of_shares;
};

static_assert(sizeof(weft_args) <= 4096, "kernel arguments are passed by value on GPUs");
