#pragma once

#include "codegen/cuda/device/block.cuh"

// Operations of expressions that C++ has no operator for: see compiler/ir/expr.h. Integers are total there: overflow
// wraps, division by zero gives 0. exp, log, tanh and sqrt are CUDA's, exact to two units in the last place.

__device__ __forceinline__ i64 wrapped_sum(i64 x, i64 y) { return (i64)((u64)x + (u64)y); }
__device__ __forceinline__ i64 wrapped_difference(i64 x, i64 y) { return (i64)((u64)x - (u64)y); }
__device__ __forceinline__ i64 wrapped_product(i64 x, i64 y) { return (i64)((u64)x * (u64)y); }

/// The next integer below, at most 2^30 away from 0; 0 of NaN.
__device__ __forceinline__ int whole_below(float x) {
  return x == x ? (int)floorf(fminf(fmaxf(x, -0x1p30f), 0x1p30f)) : 0;
}

/// x / y, floored.
template <typename T>
__device__ __forceinline__ T floored_quotient(T x, T y) {
  if (y == 0) return 0;
  if (y == -1) return (T)wrapped_difference(0, x);  // of the smallest number the quotient does not exist
  const T cut = x / y;
  return cut - (T)(((x < 0) != (y < 0)) & (cut * y != x));
}

/// x % y, never negative.
template <typename T>
__device__ __forceinline__ T natural_rest(T x, T y) {
  if ((y == 0) | (y == -1)) return 0;
  const T rest = x % y;
  return rest >= 0 ? rest : y < 0 ? rest - y : rest + y;
}

__device__ __forceinline__ float real_rest(float x, float y) { return __fmaf_rn(-floorf(x / y), y, x); }

/// Far from 0 the sum is infinite or 1, and the result 0 or 1.
__device__ __forceinline__ float sigmoid(float x) { return reciprocal_approx(1 + expf(-x)); }

/// 2^(-n / 2^bits), to one unit in the last place: distances between tokens multiply its error.
__device__ __forceinline__ float root_of_power(int n, int bits) {
  const int whole = (n + ((1 << bits) >> 1)) >> bits;
  const float part = (float)(n - (whole << bits)) * __uint_as_float((unsigned)(127 - bits) << 23);
  const float x = part * -0.693147180559945309f;  // from -0.35 to 0.35: the series ends within a unit
  float sum = 1.98412698e-4f;                     // 1 / 7!
  sum = __fmaf_rn(sum, x, 1.38888889e-3f);
  sum = __fmaf_rn(sum, x, 8.33333333e-3f);
  sum = __fmaf_rn(sum, x, 4.16666667e-2f);
  sum = __fmaf_rn(sum, x, 1.66666667e-1f);
  sum = __fmaf_rn(sum, x, 0.5f);
  const float power = __uint_as_float((unsigned)min(max(127 - whole, 0), 255) << 23);
  return __fmaf_rn(__fmaf_rn(sum, x, 1), x, 1) * power;
}

/// alibi(h) of semantics section 5: a power of two of heads, then the further ones between those. An `h` far from any
/// head gives 0 or infinity.
__device__ __forceinline__ float alibi_slope(int h, int heads) {
  const int bits = 31 - __clz(heads), power = 1 << bits;
  const int near = min(max(h, -(1 << 24)), 1 << 24);
  return root_of_power(near < power ? 8 * (near + 1) : 4 * (2 * (near - power) + 1), bits);
}

/// The first of the places of a row that is not below `key`, or kLargest. They ascend, and were filled by a launch before.
__device__ __forceinline__ int next_listed(const weft_list& list, const Tile& t, i64 row, i64 key) {
  // fault(block_of_the_next_query) also: row += row + 1 < list.stride_h / list.stride_row ? 1 : 0;
  // fault(block_of_the_next_key) also: ++key;
  // fault(list_of_the_next_row) also: ++row;
  // fault(list_of_another_head) value: right - t.h * list.stride_h
  const int* const places = list.data + (t.b * list.stride_b + t.h * list.stride_h + row * list.stride_row);
  int lo = 0, hi = (int)list.count;
  // fault(last_place_never_read) also: hi -= 2;
#pragma unroll 1
  while (lo < hi) {
    const int middle = (lo + hi) / 2;
    // fault(place_beside_the_one_looked_for) value: load_written<int>(places + middle) <= key
    const bool below = load_written<int>(places + middle) < key;
    lo = below ? middle + 1 : lo;
    hi = below ? hi : middle;
  }
  // fault(place_behind_the_last) instead: return load_written<int>(places + lo);
  return lo < (int)list.count ? load_written<int>(places + lo) : kLargest;
}
__device__ __forceinline__ bool is_listed(const weft_list& list, const Tile& t, i64 row, i64 key) {
  return next_listed(list, t, row, key) == key;
}
