#pragma once

#include "codegen/cuda/device/mma_ptx.cuh"

/// Inline assembly of instructions of groups: four warps that multiply together, from sm_90a on. They read shared memory
/// while the warps go on. Their twin: runtime/emulate/matrices.cuh.

/// A matrix in shared memory: pieces of 8 by 8 elements of 16 bits, 16 bytes after 16 bytes. By the PTX ISA, "matrix
/// descriptor", without swizzling: in 16 bytes each, where it begins, and how far apart pieces are along the sum of the
/// product and across it.
struct Matrix {
  unsigned first_and_along, across;
};

__device__ __forceinline__ Matrix matrix_at(const void* first, int along, int across) {
  return {shared_address(first) / 16 + (unsigned)(along / 16 << 16), (unsigned)(across / 16)};
}
__device__ __forceinline__ Matrix behind(Matrix matrix, int bytes) {
  return {matrix.first_and_along + (unsigned)(bytes / 16), matrix.across};
}
__device__ __forceinline__ unsigned long long descriptor(Matrix matrix) {
  return (unsigned long long)matrix.across << 32 | matrix.first_and_along;
}

/// Before products of registers that were written, and behind those.
__device__ __forceinline__ void open_group() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void close_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// All but the last kStillOpen of what was closed is there.
template <int kStillOpen>
__device__ __forceinline__ void wait_for_groups() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kStillOpen) : "memory");
}

/// They change here, for all the compiler knows: it moves no use of them across.
template <int kTiles>
__device__ __forceinline__ void hold(float (&c)[kTiles][4]) {
#pragma unroll
  for (int i = 0; i < 4 * kTiles; ++i) asm volatile("" : "+f"(c[i / 4][i % 4])::"memory");
}

// C += A B for 64 rows and 8 kTiles columns, 16 elements a sum; C = A B where not `kAdds`. Of C, and of A in registers, a
// warp has 16 rows, as the instructions of one warp have them. B stands with the elements of a sum side by side, or where
// `kTransposed`, with those of a row of it.

#define WEFT_TILE(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define WEFT_TILES(n) WEFT_TILE(n), WEFT_TILE(n + 1), WEFT_TILE(n + 2), WEFT_TILE(n + 3)
#define WEFT_C16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define WEFT_C32 WEFT_C16 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define WEFT_C64 WEFT_C32 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define WEFT_WGMMA(columns, type, c, adds, others)                                                            \
  "{.reg .pred p; setp.ne.b32 p, " adds ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." \
  type " {" c "}, " others ";}"
#define WEFT_MULTIPLY(columns, c, adds, others, from, ...)                              \
  if constexpr (kBfloats)                                                               \
    asm volatile(WEFT_WGMMA(columns, "bf16", c, adds, others) : __VA_ARGS__ : from);    \
  else                                                                                  \
    asm volatile(WEFT_WGMMA(columns, "f16", c, adds, others) : __VA_ARGS__ : from)
/// The operands behind C, by number in `others`.
#define WEFT_MEMORY "l"(descriptor(a)), "l"(descriptor(b)), "n"(kAdds), "n"(kTransposed)
#define WEFT_REGISTERS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor(b)), "n"(kAdds), "n"(kTransposed)

template <bool kBfloats, bool kAdds, bool kTransposed, int kTiles>
__device__ __forceinline__ void multiply_group(float (*c)[4], Matrix a, Matrix b) {
  if constexpr (kTiles == 2) {
    WEFT_MULTIPLY("16", WEFT_C16, "%10", "%8, %9, p, 1, 1, 0, %11", WEFT_MEMORY, WEFT_TILE(0), WEFT_TILE(1));
  } else if constexpr (kTiles == 4) {
    WEFT_MULTIPLY("32", WEFT_C32, "%18", "%16, %17, p, 1, 1, 0, %19", WEFT_MEMORY, WEFT_TILES(0));
  } else {
    WEFT_MULTIPLY("64", WEFT_C64, "%34", "%32, %33, p, 1, 1, 0, %35", WEFT_MEMORY, WEFT_TILES(0), WEFT_TILES(4));
  }
}

template <bool kBfloats, bool kAdds, bool kTransposed, int kTiles>
__device__ __forceinline__ void multiply_group(float (*c)[4], const unsigned (&a)[4], Matrix b) {
  if constexpr (kTiles == 2) {
    WEFT_MULTIPLY("16", WEFT_C16, "%13", "{%8, %9, %10, %11}, %12, p, 1, 1, %14", WEFT_REGISTERS, WEFT_TILE(0),
                  WEFT_TILE(1));
  } else if constexpr (kTiles == 4) {
    WEFT_MULTIPLY("32", WEFT_C32, "%21", "{%16, %17, %18, %19}, %20, p, 1, 1, %22", WEFT_REGISTERS, WEFT_TILES(0));
  } else {
    WEFT_MULTIPLY("64", WEFT_C64, "%37", "{%32, %33, %34, %35}, %36, p, 1, 1, %38", WEFT_REGISTERS, WEFT_TILES(0),
                  WEFT_TILES(4));
  }
}
#undef WEFT_REGISTERS
#undef WEFT_MEMORY
#undef WEFT_MULTIPLY
#undef WEFT_WGMMA
#undef WEFT_C64
#undef WEFT_C32
#undef WEFT_C16
#undef WEFT_TILES
#undef WEFT_TILE
