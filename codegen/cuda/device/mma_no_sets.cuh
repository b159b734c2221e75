#pragma once

#include "codegen/cuda/device/mma_runs.cuh"

// In the place of mma_sets.cuh, where conditions keep no sets of keys.

__device__ __forceinline__ bool open_set(const weft_args&, Shared&, const Lists&, int, Zone&, int&) { return false; }
__device__ __forceinline__ int join_sets(const weft_args&, Shared&, const Lists&, int, int, Zone&) { return -1; }
