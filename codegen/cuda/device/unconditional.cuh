#pragma once

#include "codegen/cuda/device/rows.cuh"

// In the place of conditions.cuh, for plans without conditions on pairs and without forms.

__device__ __forceinline__ void describe_conditions(const weft_args&, Shared&, const Tile&) {}
__device__ __forceinline__ Met meet_conditions(const weft_args&, Shared&, Term&, KeySpan&) {
  return {false, true, kGoesByUnits, -1};
}
__device__ __forceinline__ int modulus_of(int) { return 0; }
__device__ __forceinline__ i64 form_of(const weft_args&, const Tile&, int, int) { return 0; }
__device__ __forceinline__ bool may_hold(const weft_args&, Shared&, const Tile&, const Term&, int) { return true; }
__device__ __forceinline__ SaidByRow ask_row(const weft_args&, Shared&, const Tile&, const Term&, int) {
  return {0, 0, 0};
}
__device__ __forceinline__ SaidOfKey ask_key(const weft_args&, Shared&, const Tile&, const Term&, int, bool&) {
  return {0, 0};
}
__device__ __forceinline__ void narrow_reach(const weft_args&, Shared&, const Tile&, const Term&, const i64*, int, Reach&) {}
__device__ __forceinline__ bool holds_pair(const weft_args&, Shared&, const Tile&, const Term&, int, int) {
  return true;
}
