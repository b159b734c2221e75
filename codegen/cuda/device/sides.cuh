#pragma once

#include "codegen/cuda/device/numbers.cuh"

// Which side of the pattern tiles hold. Rows are queries, and keys are what a tile walks over; in the pass of dK and dV it
// is the other way round, and what other headers call a key is a query there (kTransposed).

/// Rows that the launch computes of a sequence: all keys, or a slice of the queries. Where entries differ in length
/// there are no slices, and these are the most of any.
__device__ __forceinline__ int first_row(const weft_args& a) { return kTransposed ? 0 : (int)a.row_begin; }
__device__ __forceinline__ int end_of_rows(const weft_args& a) { return (int)(kTransposed ? a.n_k : a.row_end); }

/// Of entries whose sizes the host does not know, those of decoding are computed by one launch, and the others by another.
__device__ __forceinline__ bool is_of_launch(const weft_args& a, int n_q) {
  return !kSomeEntries || (n_q > a.queries_above && n_q <= a.queries_up_to);
}

/// Position of row 0 of a batch entry, …
__device__ __forceinline__ int position_of_rows(const weft_args& a, int b) {
  return kTransposed ? 0 : first_position(a, b);
}
/// … and of the first key that there is, and behind the last one, of an entry with so many queries and keys.
__device__ __forceinline__ int first_key(const weft_args& a, int b) {
  return kTransposed ? first_position(a, b) + (int)a.row_begin : 0;
}
__device__ __forceinline__ int end_of_keys(const weft_args& a, int b, int n_q, int n_k) {
  return kTransposed ? first_position(a, b) + min((int)a.row_end, n_q) : n_k;
}

/// Where there is no key: before every position. Those of queries may be negative.
constexpr int kNoKey = -kLargest - 1;

/// A key is no number of a row that has none, and not negative unless it is a query.
__device__ __forceinline__ int remainder_of_key(int y, int by) {
  if (is_power_of_two(by)) return y & (by - 1);
  const int rest = y % by;
  return kTransposed && rest < 0 ? rest + by : rest;
}
/// The largest multiple of `of` that is not above key y.
__device__ __forceinline__ int multiple_below_key(int y, int of) { return y - remainder_of_key(y, of); }

/// The row of a tensor that key y has, of its batch entry.
__device__ __forceinline__ int row_of_key(const weft_args& a, int first_of_keys, int y) {
  return kTransposed ? y - first_of_keys + (int)a.row_begin : y;
}

/// How many query heads share keys and values.
__device__ __forceinline__ int heads_of_group(const weft_args& a) { return (int)a.of_group.by; }
__device__ __forceinline__ int kv_head_of(const weft_args& a, int head) { return divided(head, a.of_group); }
