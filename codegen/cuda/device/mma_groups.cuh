#pragma once

#include "codegen/cuda/device/mma_group_ptx.cuh"
#include "codegen/cuda/device/mma_products.cuh"

// In the place of mma_warps.cuh: products by instructions of four warps, which read what rows of keys hold in shared
// memory. Tiles that have no pair are computed with the others, as all four warps must agree.

static_assert(!kByGroups || kWarps == 4, "a tile of each warp is what one instruction computes");

/// So many tiles of 8 columns by one instruction; what is left, by others.
constexpr int tiles_at_once(int left) { return left >= 8 ? 8 : left >= 4 ? 4 : 2; }

/// c += A B for any even number of tiles of 8 columns; `step`: bytes to the next tile of B.
template <bool kAdds, bool kTransposed, int kTiles, int kFirst = 0, typename A>
__device__ __forceinline__ void multiply_tiles(float (&c)[kTiles][4], const A& a, Matrix b, int step) {
  constexpr int kAtOnce = tiles_at_once(kTiles - kFirst);
  multiply_group<kStored == Element::bf16, kAdds, kTransposed, kAtOnce>(c + kFirst, a, behind(b, kFirst * step));
  if constexpr (kFirst + kAtOnce < kTiles) multiply_tiles<kAdds, kTransposed, kTiles, kFirst + kAtOnce>(c, a, b, step);
}

/// See mma_warps.cuh. Behind await_products() of a part its tiles are there.
template <Of kOf, int kApart, int kOfRow>
__device__ __forceinline__ void multiply_rows(Scores& scores, const unsigned char* rows,
                                              const unsigned char* keys) {
  // fault(pieces_of_k_side_by_side) value: matrix_at(keys, 8 * kApart, kPieceBytes)
  const Matrix k = matrix_at(keys, kPieceBytes, 8 * kApart);
  open_group();
#pragma unroll
  for (int i = 0; i < kTilesEach; ++i) {
    // fault(rows_of_the_first_tile) value: matrix_at(rows, kPieceBytes, 8 * kApart)
    const Matrix q = matrix_at(rows + i * (16 * kWarps) * kApart, kPieceBytes, 8 * kApart);
    multiply_tiles<false, false>(scores[i], q, k, 8 * kApart);
#pragma unroll
    for (int c = 1; c < (kOfRow + 15) / 16; ++c)
      multiply_tiles<true, false>(scores[i], behind(q, 2 * c * kPieceBytes), behind(k, 2 * c * kPieceBytes), 8 * kApart);
    close_group();
  }
}

/// Tiles [first, end), behind which kStillOpen others were asked for.
template <int kStillOpen, int kTiles>
__device__ __forceinline__ void await_products(float (&c)[kTilesEach][kTiles][4], int first, int end) {
  wait_for_groups<kStillOpen>();
#pragma unroll
  for (int i = first; i < end; ++i) hold(c[i]);
}

/// See mma_warps.cuh; of tiles [first, end).
template <Of kOf, int kApart, int kTiles>
__device__ __forceinline__ void sum_rows(float (&sums)[kTilesEach][kTiles][4], const Scores& scores, unsigned,
                                           const unsigned char* keys, int first, int end) {
  unsigned weights[kTilesEach][kKeyTiles / 2][4];
#pragma unroll
  for (int i = first * kKeyTiles * 2; i < end * kKeyTiles * 2; ++i) {
    const int tile = i / (2 * kKeyTiles), n = i / 4 % (kKeyTiles / 2), e = i % 4;
    const float* const p = &scores[tile][2 * n + e / 2][e % 2 * 2];
    weights[tile][n][e] = pack(p[0], p[1]);
  }
  const Matrix v = matrix_at(keys, 8 * kApart, kPieceBytes);
#pragma unroll
  for (int i = first; i < end; ++i) hold(sums[i]);
  open_group();
#pragma unroll
  for (int i = first; i < end; ++i) {
#pragma unroll
    for (int n = 0; n < kKeyTiles / 2; ++n) {
      // fault(values_of_other_keys) instead: multiply_tiles<true, true>(sums[i], weights[i][n], v, kPieceBytes);
      multiply_tiles<true, true>(sums[i], weights[i][n], behind(v, 2 * n * (8 * kApart)), kPieceBytes);
    }
    close_group();
  }
}
