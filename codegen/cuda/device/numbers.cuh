#pragma once

#include "codegen/cuda/device/ptx.cuh"

// Numbers: floored division, what lanes have together, and four stored elements as floats.

using i64 = std::int64_t;
using u64 = std::uint64_t;

constexpr int kLargest = 0x7FFFFFFF;
__device__ __forceinline__ float infinity() { return __uint_as_float(0x7F800000u); }

__device__ __forceinline__ int clamp_to_int(i64 v) { return (int)min(max(v, -(i64)kLargest), (i64)kLargest); }

/// Position of row 0 of a batch entry.
__device__ __forceinline__ int first_position(const weft_args& a, int b) {
  return (int)(a.offsets != nullptr ? load_global<i64>(a.offsets + b) : a.offset);
}

// Of a batch entry, which may be a sequence among others: rows and keys, and where they begin in packed tensors.
__device__ __forceinline__ int queries_of(const weft_args& a, int b) {
  return a.entries == nullptr ? (int)a.n_q : load_global<int>(&a.entries[b].n_q);
}
__device__ __forceinline__ int keys_of(const weft_args& a, int b) {
  return a.entries == nullptr ? (int)a.n_k : load_global<int>(&a.entries[b].n_k);
}
__device__ __forceinline__ int first_query_of(const weft_args& a, int b) {
  return a.entries == nullptr ? 0 : load_global<int>(&a.entries[b].first_q);
}
__device__ __forceinline__ int first_key_of(const weft_args& a, int b) {
  return a.entries == nullptr ? 0 : load_global<int>(&a.entries[b].first_k);
}

/// Which page has the keys of a batch entry from index * page_size on. The host could not look at the table: an entry
/// that is no page reads a wrong one, and no memory that is none.
__device__ __forceinline__ int page_number(const weft_args& a, int b, i64 index) {
  return min(max(load_global<int>(a.pages + (b * a.page_stride + index)), 0), (int)a.page_count - 1);
}

/// index * step for index >= 0: half of the instructions of a product of two 64-bit numbers.
__device__ __forceinline__ i64 times(int index, i64 step) {
  const u64 low = (u64)(unsigned)index * (unsigned)step;
  return (i64)(low + ((u64)((unsigned)index * (unsigned)(step >> 32)) << 32));
}

/// Of a number from 0 to below 2^31.
__device__ __forceinline__ int divided(int number, const weft_divisor& by) {
  return (int)(__umulhi(2u * (unsigned)number, by.factor) >> by.shift);
}

/// Over `kLanes` neighbouring lanes of a warp; steps stand in the text kAtOnce at a time.
template <int kLanes, int kAtOnce = 5, typename T, typename Of>
__device__ __forceinline__ T over_lanes(T x, const Of& of) {
#pragma unroll(kAtOnce)
  for (int apart = kLanes / 2; apart > 0; apart /= 2) x = of(x, __shfl_xor_sync(0xFFFFFFFFu, x, apart));
  return x;
}
template <int kLanes, int kAtOnce = 5, typename T>
__device__ __forceinline__ T least_of(T x) {
  return over_lanes<kLanes, kAtOnce>(x, [](T a, T b) { return min(a, b); });
}
template <int kLanes, int kAtOnce = 5, typename T>
__device__ __forceinline__ T most_of(T x) {
  return over_lanes<kLanes, kAtOnce>(x, [](T a, T b) { return max(a, b); });
}
template <int kLanes, typename T>
__device__ __forceinline__ T sum_of(T x) {
  return over_lanes<kLanes>(x, [](T a, T b) { return a + b; });
}

/// Of a number above 0. Segments and rates are powers of two nearly always, and a division costs a hundred clocks.
__device__ __forceinline__ bool is_power_of_two(i64 x) { return (x & (x - 1)) == 0; }
__device__ __forceinline__ bool is_power_of_two(int x) { return (x & (x - 1)) == 0; }

/// Of numbers from 0 on, by one above 0.
__device__ __forceinline__ int quotient(unsigned x, int by) {
  if (is_power_of_two(by)) return (int)(x >> (31 - __clz(by)));
  return (int)(x / (unsigned)by);
}

/// Divisors from tables may exceed every position; positions lie between -kLargest and kLargest.
__device__ __forceinline__ int floor_div(int x, i64 divisor) {
  const int w = (int)min(divisor, (i64)kLargest);
  if (is_power_of_two(w)) return x >> (31 - __clz(w));
  const int towards_zero = x / w;
  return towards_zero - (towards_zero * w > x ? 1 : 0);
}

/// The largest multiple of `divisor` that is not above x.
__device__ __forceinline__ i64 floor_to(int x, i64 divisor) {
  if (is_power_of_two(divisor)) return x & -divisor;
  const int w = (int)min(divisor, (i64)kLargest);
  const int towards_zero = x / w * w;
  return towards_zero - (towards_zero > x ? divisor : 0);
}

__device__ __forceinline__ i64 floor_mod(int x, i64 divisor) { return x - floor_to(x, divisor); }

/// Loops add bytes instead of an index, which would have to be multiplied in every turn.
template <typename T>
__device__ __forceinline__ T* beyond(T* from, int bytes) {
  return (T*)((unsigned char*)from + bytes);
}

__device__ __forceinline__ void unpack(float* to, float4 from) {
  to[0] = from.x;
  to[1] = from.y;
  to[2] = from.z;
  to[3] = from.w;
}

enum class Element { f32, f16, bf16 };

template <Element E>
constexpr int kBytes = E == Element::f32 ? 4 : 2;

template <Element E>
__device__ __forceinline__ float from_bits(unsigned short bits) {
  return E == Element::f16 ? from_half(bits) : from_bfloat(bits);
}

template <Element E>
__device__ __forceinline__ unsigned to_bits(float x) {
  return E == Element::f16 ? to_half(x) : to_bfloat(x);
}

template <Element E>
__device__ __forceinline__ float load1(const unsigned char* from) {
  if constexpr (E == Element::f32) {
    return load_global<float>(from);
  } else {
    return from_bits<E>(load_global<unsigned short>(from));
  }
}

/// Four elements by one load.
template <Element E>
__device__ __forceinline__ float4 load4(const unsigned char* from) {
  if constexpr (E == Element::f32) {
    return load_global<float4>(from);
  } else {
    const uint2 two = load_global<uint2>(from);
    return make_float4(from_bits<E>((unsigned short)two.x), from_bits<E>((unsigned short)(two.x >> 16)),
                       from_bits<E>((unsigned short)two.y), from_bits<E>((unsigned short)(two.y >> 16)));
  }
}

template <Element E>
__device__ __forceinline__ void store1(unsigned char* to, float x) {
  if constexpr (E == Element::f32) {
    store_global<float>(to, x);
  } else {
    store_global<unsigned short>(to, (unsigned short)to_bits<E>(x));
  }
}

/// Four elements by one store.
template <Element E>
__device__ __forceinline__ void store4(unsigned char* to, float4 v) {
  if constexpr (E == Element::f32) {
    store_global<float4>(to, v);
  } else {
    store_global<uint2>(to,
                        make_uint2(to_bits<E>(v.x) | to_bits<E>(v.y) << 16, to_bits<E>(v.z) | to_bits<E>(v.w) << 16));
  }
}
