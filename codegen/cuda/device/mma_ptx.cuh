#pragma once

#include "codegen/cuda/device/ptx.cuh"

/// Inline assembly of matrix instructions and asynchronous copies. Its twin: runtime/emulate/matrices.cuh.

__device__ __forceinline__ unsigned shared_address(const void* at) { return (unsigned)__cvta_generic_to_shared(at); }

/// Four matrices of 8 x 8 elements of 16 bits. Lane l gives the address of row l % 8 of matrix l / 8, and gets of each
/// matrix elements 2 * (l % 4) and the next of row l / 4.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}

/// The same of the transposed matrices.
__device__ __forceinline__ void load_transposed(unsigned (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}

/// C += A B for 16 x 16 and 16 x 8 elements, sums in f32; where `kFenced` only if `on`, on which the lanes of the warp agree.
/// A fence costs a slot: ptxas waits for the warp's lanes and moves no load of later operands to before it.
#define WEFT_MMA(shape, type, a, b, ...)                                                                          \
  if constexpr (kFenced)                                                                                          \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %4, 0;\n@p mma.sync.aligned." shape ".row.col.f32." type "." type \
                 ".f32 {%0, %1, %2, %3}, " a ", " b ", {%0, %1, %2, %3};}"                                        \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                 \
                 : "r"(on), __VA_ARGS__);                                                                         \
  else                                                                                                            \
    asm volatile("{.reg .b32 p; mov.b32 p, %4;\nmma.sync.aligned." shape ".row.col.f32." type "." type            \
                 ".f32 {%0, %1, %2, %3}, " a ", " b ", {%0, %1, %2, %3};}"                                        \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                 \
                 : "r"(on), __VA_ARGS__)

template <bool kFenced>
__device__ __forceinline__ void multiply_halves(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                                                int on) {
#if __CUDA_ARCH__ >= 800
  WEFT_MMA("m16n8k16", "f16", "{%5, %6, %7, %8}", "{%9, %10}", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0),
           "r"(b1));
#else
  WEFT_MMA("m16n8k8", "f16", "{%5, %6}", "{%7}", "r"(a[0]), "r"(a[1]), "r"(b0));
  WEFT_MMA("m16n8k8", "f16", "{%5, %6}", "{%7}", "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

/// From sm_80 on.
template <bool kFenced>
__device__ __forceinline__ void multiply_bfloats(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1,
                                                 int on) {
  WEFT_MMA("m16n8k16", "bf16", "{%5, %6, %7, %8}", "{%9, %10}", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0),
           "r"(b1));
}
#undef WEFT_MMA

__device__ __forceinline__ unsigned pack_halves(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
#else
  return to_half(low) | (unsigned)to_half(high) << 16;
#endif
}

/// From sm_80 on.
__device__ __forceinline__ unsigned pack_bfloats(float low, float high) {
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

/// Copies 16 bytes, or `bytes` and zeros behind them, at some time before wait_for_copies(). From sm_80 on.
__device__ __forceinline__ void copy_padded(void* to_shared, const void* from_global, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)), "l"(from_global),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void copy_async(void* to_shared, const void* from_global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to_shared)), "l"(from_global)
               : "memory");
}

/// Eight bytes.
__device__ __forceinline__ void copy_pair(void* to_shared, const void* from_global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(to_shared)), "l"(from_global) : "memory");
}

/// What this thread has copied is there for it; for others behind a barrier.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// What this thread has written to shared memory: instructions of groups may read it behind a barrier.
__device__ __forceinline__ void show_groups() {
  if (kByGroups) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
