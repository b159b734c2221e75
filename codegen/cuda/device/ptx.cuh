#pragma once

/// The only inline assembly and the only plain loads and stores of the hot code. On the host, where the emitted text
/// runs for tests, runtime/emulate has a twin of everything here.

/// 2^x, with 2^0 exactly 1; 0 for minus infinity. Two units in the last place (PTX ISA, ex2.approx).
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// log2 x; absolute error 2^-22 near 1, relative elsewhere (PTX ISA, lg2.approx).
__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / x; one unit in the last place (PTX ISA, rcp.approx).
__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float from_half(unsigned short bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}

__device__ __forceinline__ unsigned short to_half(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float from_bfloat(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }

/// To nearest, ties to even, by integers: cards before sm_80 have no instruction for it.
__device__ __forceinline__ unsigned short to_bfloat(float x) {
  const unsigned bits = __float_as_uint(x);
  if (x != x) return 0x7FC0;
  return (unsigned short)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

/// The thread's number, read anew. What is computed from threadIdx.x is kept for the next turn of a loop, in registers
/// that the products between two turns would need; what is computed from this is not.
__device__ __forceinline__ unsigned thread_anew() {
  unsigned x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}

/// The same number, of which the compiler does not know how to compute it anew in every turn of a loop.
__device__ __forceinline__ int kept(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

/// Any number: what a variable held before, the compiler need not keep.
__device__ __forceinline__ float anything() {
  float x;
  asm("" : "=f"(x));
  return x;
}

/// A barrier of the block that every warp may reach at a place of its own, all its lanes together. __syncthreads() is one
/// for all warps at one place: where some compute and others help them, there are two, and so there are in two instances
/// of a template. Number 0 is that of __syncthreads().
__device__ __forceinline__ void meet_warps() { asm volatile("bar.sync 1;" ::: "memory"); }
/// … and says whether any thread came with `x`.
__device__ __forceinline__ bool meet_warps_or(bool x) {
  int any;
  asm volatile(
      "{.reg .pred x, any; setp.ne.s32 x, %1, 0; bar.red.or.pred any, 1, x; selp.s32 %0, 1, 0, any;}"
      : "=r"(any)
      : "r"((int)x)
      : "memory");
  return any != 0;
}

/// Read-only memory that everybody reads: through the texture path, so that sm_61 caches it in L1.
template <typename T>
__device__ __forceinline__ T load_global(const void* from) {
  return __ldg(static_cast<const T*>(from));
}

/// Memory that a launch before wrote, or that this one writes.
template <typename T>
__device__ __forceinline__ T load_written(const void* from) {
  return *static_cast<const T*>(from);
}

template <typename T>
__device__ __forceinline__ void store_global(void* to, T value) {
  *static_cast<T*>(to) = value;
}

/// To memory that many add to, in any order: whole numbers, so that the order does not tell.
__device__ __forceinline__ void add_atomically(void* to, long long by) {
  atomicAdd((unsigned long long*)to, (unsigned long long)by);
}
__device__ __forceinline__ void raise_atomically(void* to, unsigned by) { atomicMax((unsigned*)to, by); }

template <typename T>
__device__ __forceinline__ T load_shared(const void* from) {
  return *static_cast<const T*>(from);
}

template <typename T>
__device__ __forceinline__ void store_shared(void* to, T value) {
  *static_cast<T*>(to) = value;
}

/// The dynamic shared memory of the block, as bytes.
#define WEFT_SHARED_MEMORY(name) extern __shared__ __align__(128) unsigned char name[]
