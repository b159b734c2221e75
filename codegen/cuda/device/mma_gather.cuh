#pragma once

#include "codegen/cuda/device/mma_softmax.cuh"

// Where warps share rows, as in decoding: from what each has found of its keys to what the rows come to.

/// What a thread hands to those with its rows in other warps: m and l of its rows, and O, a place for each column tile.
__device__ __forceinline__ float4* part_of_sums(Shared& s, int part, int place) {
  return (float4*)s.bytes + (part * (kColumnTiles + 1) + place) * 32 + threadIdx.x % 32;
}
static_assert(kKeyParts * (kColumnTiles + 1) * 32 * sizeof(float4) <= sizeof(WorkingMemory::bytes));

/// Warps that share rows put together what they have found: each gets m and l, and O of its share of the columns. In the
/// order of the keys, so that bits do not depend on who is first.
__device__ __forceinline__ void gather_sums(Shared& s, State& st) {
  static_assert(kTilesEach == 1);
  const int part = (int)(threadIdx.x / 32) / kRowWarps;
  __syncthreads();  // nobody reads keys and values any more
  store_shared(part_of_sums(s, part, 0), make_float4(st.m[0], st.m[1], st.l[0], st.l[1]));
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
    const auto& o = st.o[0][c];
    if (!has_columns(c)) store_shared(part_of_sums(s, part, 1 + c), make_float4(o[0], o[1], o[2], o[3]));
  }
  __syncthreads();
  float4 sums[kKeyParts];
#pragma unroll
  for (int p = 0; p < kKeyParts; ++p) sums[p] = load_shared<float4>(part_of_sums(s, p, 0));
#pragma unroll
  for (int p = 0; p < kKeyParts; ++p) {
    st.m[0] = fmaxf(st.m[0], sums[p].x);
    st.m[1] = fmaxf(st.m[1], sums[p].y);
  }
  st.l[0] = st.l[1] = 0;
#pragma unroll
  for (int p = 0; p < kKeyParts; ++p) {
    // fault(sums_of_warps_from_their_own_maximum) value: 1
    sums[p].x = kDirect ? 1 : exp2_approx(sums[p].x - st.m[0]);
    sums[p].y = kDirect ? 1 : exp2_approx(sums[p].y - st.m[1]);
    st.l[0] = __fmaf_rn(sums[p].z, sums[p].x, st.l[0]);
    st.l[1] = __fmaf_rn(sums[p].w, sums[p].y, st.l[1]);
  }
#pragma unroll
  for (int c = 0; c < kColumnTiles; ++c) {
    if (!has_columns(c)) continue;
    auto& o = st.o[0][c];
    float4 all = {0, 0, 0, 0};
#pragma unroll
    for (int p = 0; p < kKeyParts; ++p) {
      const float4 its = p == part ? make_float4(o[0], o[1], o[2], o[3]) : load_shared<float4>(part_of_sums(s, p, 1 + c));
      all.x = __fmaf_rn(its.x, sums[p].x, all.x);
      all.y = __fmaf_rn(its.y, sums[p].x, all.y);
      all.z = __fmaf_rn(its.z, sums[p].y, all.z);
      all.w = __fmaf_rn(its.w, sums[p].y, all.w);
    }
    o[0] = all.x, o[1] = all.y, o[2] = all.z, o[3] = all.w;
  }
}
