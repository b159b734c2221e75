#pragma once

#include "codegen/cuda/device/simt_products.cuh"
#include "codegen/cuda/device/written.cuh"

// From what plain lanes summed up to rows in memory, and back.

/// The thread's columns [at, at + kWide) of its rows go to shared memory, or come from there.
template <bool kOut, int kWide>
__device__ __forceinline__ void move_columns(Shared& s, Sums& sums, int at) {
  constexpr int kWidth = 8 * kWide * kColumnWarps;
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    float* const there = &s.weights[row_of(r) * kWidth + (8 * warp_of_columns() + lane_of_row()) * kWide];
#pragma unroll
    for (int i = 0; i < kWide; i += 4) {
      float* const o = &sums[r][at + i];
      if constexpr (kOut && kWide == 4) store_shared(there, make_float4(o[0], o[1], o[2], o[3]));
      if constexpr (kOut && kWide == 2) store_shared(there, make_float2(o[0], o[1]));
      if constexpr (kOut && kWide == 1) store_shared(there, o[0]);
      if constexpr (!kOut && kWide == 4) unpack(o, load_shared<float4>(there));
      if constexpr (!kOut && kWide == 2) {
        const float2 two = load_shared<float2>(there);
        o[0] = two.x;
        o[1] = two.y;
      }
      if constexpr (!kOut && kWide == 1) o[0] = load_shared<float>(there);
    }
  }
}

/// Columns [column, column + 8 * kWide) of every warp's.
template <bool kOut, int kColumnsThereAre, int kWide, typename Place, typename Use>
__device__ __forceinline__ void each_four(Shared& s, Sums& sums, const Tile& t, int at, int column, const Place& place,
                                          const Use& use) {
  constexpr int kOfWarp = 8 * kWide, kFoursWide = kOfWarp * kColumnWarps / 4;
  __syncthreads();
  if (kOut) {
    move_columns<true, kWide>(s, sums, at);
    __syncthreads();
  }
  const int in_row = threadIdx.x % kFoursWide * 4;
  const int c = column + in_row / kOfWarp * (kColumns / kColumnWarps) + in_row % kOfWarp;
  const auto values_of = [&](int row) { return &s.weights[row * (4 * kFoursWide) + in_row]; };
  if (t.apart == 0) {
#pragma unroll 1
    for (int row = threadIdx.x / kFoursWide; row < kRows; row += kThreads / kFoursWide) {
      if (is_computed(t, row) && c < kColumnsThereAre) use(place(row, c), values_of(row), c);
    }
  } else if (c < kColumnsThereAre) {
    each_even_place<kThreads / kFoursWide, 1>(
        t.from + threadIdx.x / kFoursWide, t.to, [&](int row) { return place(row, c); },
        [&](int row, auto* there) { use(there, values_of(row), c); });
  }
  if (!kOut) {
    __syncthreads();
    move_columns<false, kWide>(s, sums, at);
  }
}

/// Calls use(place(row of the tile, column), where four values from that column on are, column) for all there are: of sums
/// as they are, or to become them. By way of shared memory, because then neighbouring threads hold neighbouring columns, and
/// the code stands here once instead of once for each row of a thread. Columns turn, so that it stands once for all fours.
template <bool kOut, int kColumnsThereAre, typename Place, typename Use>
__device__ __forceinline__ void each_sum_of_values(Shared& s, Sums& sums, const Tile& t, const Place& place,
                                                   const Use& use) {
  if constexpr (kTwo) each_four<kOut, kColumnsThereAre, 2>(s, sums, t, 4 * kFours, 32 * kFours, place, use);
  if constexpr (kSingle) each_four<kOut, kColumnsThereAre, 1>(s, sums, t, kColumnsEach - 1, kColumns / kColumnWarps - 8, place, use);
#pragma unroll 1
  for (int g = 0; g < kFours; ++g) {
    each_four<kOut, kColumnsThereAre, 4>(s, sums, t, 0, 32 * g, place, use);
#pragma unroll
    for (int r = 0; r < kRowsEach; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float first = sums[r][0];
#pragma unroll
        for (int c = 1; c < 4 * kFours; ++c) sums[r][c - 1] = sums[r][c];
        sums[r][4 * kFours - 1] = first;
      }
    }
  }
}

constexpr int kStoredAtOnce = 4;

/// Four columns from this one on, as far as there are so many, times `factor`; from shared memory.
template <int kOfRow>
__device__ __forceinline__ void store_four(const Written& to, unsigned char* at, int column, const float* from, float factor) {
  float4 four = load_shared<float4>(from);
  four = make_float4(four.x * factor, four.y * factor, four.z * factor, four.w * factor);
  if (to.at_once) return store4<kStored>(at, four);
#pragma unroll 1
  for (int i = 0; i < in_four<kOfRow>(column); ++i) {
    store1<kStored>(at + i * kBytes<kStored>, four.x);
    four = make_float4(four.y, four.z, four.w, 0);
  }
}

/// Of sums the rows that are computed to memory, times `factor`.
template <int kOfRow>
__device__ __forceinline__ void store_sums(Shared& s, Sums& sums, const Tile& t, const Written& to, float factor) {
  each_sum_of_values<true, kOfRow>(
      s, sums, t, [&](int row, int column) { return place_of_columns(to, s, t, row, column); },
      [&](unsigned char* at, const float* four, int column) { store_four<kOfRow>(to, at, column, four, factor); });
}
