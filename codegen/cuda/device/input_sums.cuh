#pragma once

#include "codegen/cuda/device/pair_gradients.cuh"

// Gradients of inputs: any pair may add to any number of an input, in any order, and the bits must not depend on that. So
// they are added up as integers, in units so small that rounding to them is far below that of f32, and so large that no
// sum is too big for 64 bits. One pass over all pairs finds the most that a thread has to add, the next one adds. Of the two
// words of a number the first is the sum; the second is not 0 where something was added that is not finite.

/// In their order: for each input that is asked for its table is cleared; all pairs are measured; all are added up; the
/// sums become f32.
enum InputStep { kClear, kMeasure, kAdd, kResult };

/// The exponent of the unit of an input's sums, of which all threads together have fewer than 2^62.
__device__ __forceinline__ int unit_of(const weft_args& a, int input) {
  const int exponent = (int)(load_written<unsigned>(a.input_bounds + input) >> 23) - 127 + 1;
  return max(exponent + (int)a.input_share - 62, -126);
}

/// What a thread measures, or adds, of one of the elements that scores read.
struct ElementSum {
  float most;    // kMeasure: so far
  float factor;  // kAdd: to units
  int input;
};

__device__ __forceinline__ ElementSum open_element(const weft_args& a, int input) {
  const bool adds = a.input_step == kAdd;
  return {0, adds ? __uint_as_float((unsigned)(127 - unit_of(a, input)) << 23) : 0, input};
}

/// A thread adds `by` at a place of the input's table.
__device__ __forceinline__ void add_to_input(const weft_args& a, ElementSum& sum, i64 place, float by) {
  const bool finite = fabsf(by) < infinity();
  if (a.input_step == kMeasure) {
    if (finite) sum.most += fabsf(by);
    return;
  }
  i64* const to = (i64*)a.input_sums[sum.input] + 2 * place;
  if (!finite) return store_global(to + 1, (i64)1);
  // fault(part_of_what_inputs_get_lost) also: by *= 0.9f;
  if (by != 0) add_atomically(to, __float2ll_rn(by * sum.factor));
}

__device__ __forceinline__ void close_element(const weft_args& a, const ElementSum& sum) {
  if (a.input_step == kMeasure && sum.most > 0) raise_atomically(a.input_bounds + sum.input, __float_as_uint(sum.most));
}

extern "C" __global__ void __launch_bounds__(kThreads) weft_input_tables(const weft_args a) {
  const int input = (int)a.input_number;
  const i64 place = (i64)blockIdx.x * kThreads + threadIdx.x;
  const auto& extents = a.d_input.extents;
  if (place >= extents[0] * extents[1] * extents[2] * extents[3]) return;
  i64* const table = (i64*)a.input_sums[input] + 2 * place;
  if (a.input_step == kClear) {
    store_global(table, (i64)0);
    store_global(table + 1, (i64)0);
    if (place == 0) store_global(a.input_bounds + input, 0u);
    return;
  }
  i64 rest = place, at = 0;
#pragma unroll
  for (int axis = 3; axis >= 0; --axis) {
    const i64 extent = extents[axis], index = rest % extent;
    rest /= extent;
    at += index * a.d_input.strides[axis];
  }
  const i64 sum = load_written<i64>(table);
  const double unit = __longlong_as_double((i64)(1023 + unit_of(a, input)) << 52);
  const bool strange = load_written<i64>(table + 1) != 0;
  store_global((float*)a.d_input.data + at, strange ? infinity() - infinity() : (float)((double)sum * unit));
}
