#pragma once

#include "codegen/cuda/device/mma_products.cuh"
#include "codegen/cuda/device/written.cuh"

// From fragments of sums to rows in memory, and back.

__device__ __forceinline__ float* result_row(Shared& s, int row) { return (float*)s.bytes + row * kResultFloats; }

/// The thread's pair of columns of tile c of a part, in its row i.
__device__ __forceinline__ float* result_at(Shared& s, int i, int c) {
  return result_row(s, row_of(i)) + c * 8 + threadIdx.x % 4 * 2;
}

/// A part of the results goes there, or comes from there.
template <bool kOut, int kTiles>
__device__ __forceinline__ void move_part(Shared& s, float (&sums)[kTilesEach][kTiles][4], int part) {
  constexpr int kPartTiles = kTiles / kResultParts;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
#pragma unroll
    for (int c = 0; c < kPartTiles; ++c) {
      if (kOut && !has_columns(part * kPartTiles + c)) continue;
      float* const o = &sums[i / 2][part * kPartTiles + c][i % 2 * 2];
      if (kOut) {
        store_shared(result_at(s, i, c), make_float2(o[0], o[1]));
      } else {
        const float2 come = load_shared<float2>(result_at(s, i, c));
        o[0] = come.x;
        o[1] = come.y;
      }
    }
  }
  __syncthreads();
}

/// Calls use(place(row of the tile, column), where four values from that column on are, column) for so many columns of
/// sums as they are, or to become them. By way of shared memory, because then neighbouring threads hold neighbouring
/// columns, and the code stands here once instead of once for each register.
template <bool kOut, int kColumnsThereAre, int kTiles, typename Place, typename Use>
__device__ __forceinline__ void each_of_sums(Shared& s, float (&sums)[kTilesEach][kTiles][4], const Tile& t,
                                             const Place& place, const Use& use) {
  constexpr int kPartColumns = 8 * kTiles / kResultParts, kFours = kPartColumns / 4;
  constexpr int kLanes = lanes_of_row(kFours);
  const int lane = threadIdx.x % kLanes;
#pragma unroll
  for (int part = 0; part < kResultParts; ++part) {
    kOut ? move_part<true>(s, sums, part) : __syncthreads();
    const int column = part * kPartColumns + 4 * lane;
    const bool is_there = (kFours == kLanes || lane < kFours) && column < kColumnsThereAre;
    if (t.apart == 0) {
#pragma unroll 1
      for (int i = threadIdx.x; i < t.count * kFours; i += kThreads) {
        const int row = i / kFours, in_part = i % kFours * 4, c = part * kPartColumns + in_part;
        if (c < kColumnsThereAre && is_computed(t, row)) use(place(row, c), result_row(s, row) + in_part, c);
      }
    } else if (is_there) {
      each_even_place<kThreads / kLanes, 1>(
          t.from + threadIdx.x / kLanes, t.to, [&](int row) { return place(row, column); },
          [&](int row, auto* at) { use(at, result_row(s, row) + 4 * lane, column); });
    }
    if (!kOut) move_part<false>(s, sums, part);
  }
}

constexpr int kStoredAtOnce = 8;

/// Of a chunk of 16 bytes the first `count` columns to where their row is.
__device__ __forceinline__ void store_chunk(const Written& to, unsigned char* at, uint4 columns, int count) {
  if (to.at_once) return store_global(at, columns);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    store_global<unsigned short>(at + 2 * i, (unsigned short)columns.x);
    columns = make_uint4(columns.x >> 16 | columns.y << 16, columns.y >> 16 | columns.z << 16,
                         columns.z >> 16 | columns.w << 16, columns.w >> 16);
  }
}

/// Of sums the rows that are computed to memory, times `factor`. By way of shared memory, as they are stored: 8 columns, 16
/// bytes, by a lane.
template <int kOfRow, int kTiles>
__device__ __forceinline__ void store_sums(Shared& s, const float (&sums)[kTilesEach][kTiles][4], const Tile& t, const Written& to,
                                           float factor) {
  constexpr int kApart = 16 * kTiles + 16, kLanes = lanes_of_row(kTiles);  // bytes between rows: eight meet all banks
  static_assert(kApart <= kResultFloats * 4);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    unsigned* const row = (unsigned*)(s.bytes + row_of(i) * kApart) + threadIdx.x % 4;
#pragma unroll
    for (int c = 0; c < kTiles; ++c) {
      const float* const two = &sums[i / 2][c][i % 2 * 2];
      if (has_columns(c)) store_shared<unsigned>(row + 4 * c, pack(two[0] * factor, two[1] * factor));
    }
  }
  // fault(results_read_before_they_stand) leaves this out
  __syncthreads();
  const auto move = [&](int row, unsigned char* at, int chunk) {
    // fault(results_of_the_next_chunk) value: load_shared<uint4>(s.bytes + row * kApart + 16 * (chunk ^ 1))
    const auto columns = load_shared<uint4>(s.bytes + row * kApart + 16 * chunk);
    // fault(columns_behind_the_last_one) value: 8
    const int count = min(8, kOfRow - 8 * chunk);
    store_chunk(to, at, columns, count);
  };
  if (t.apart == 0) {
#pragma unroll 1
    for (int i = threadIdx.x; i < t.count * kTiles; i += kThreads) {
      const int row = i / kTiles, chunk = i % kTiles;
      if (8 * chunk < kOfRow && is_computed(t, row)) move(row, place_of_columns(to, s, t, row, 8 * chunk), chunk);
    }
    return;
  }
  const int chunk = threadIdx.x % kLanes;
  if (8 * chunk >= kOfRow) return;
  each_even_place<kThreads / kLanes, 1>(
      t.from + threadIdx.x / kLanes, t.to, [&](int row) { return place_of_columns(to, s, t, row, 8 * chunk); },
      [&](int row, unsigned char* at) { move(row, at, chunk); });
}
