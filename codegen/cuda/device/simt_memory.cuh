#pragma once

#include "codegen/cuda/device/numbers.cuh"

// Working memory of the kernels that compute on plain lanes.

constexpr int kKeyList = kKeys + kThreads;  // keys found and not yet computed
constexpr int kRowStride = kRows + 4;       // a transposed store of 16 rows × 2 columns meets 32 banks
constexpr int kKeyStride = kKeys + 4;
constexpr int kColumns = (kDimV + 15) / 16 * 16;  // columns of V as staged
constexpr int kStageFloats = kDepth * (kRowStride + kKeyStride) > kStaged* kColumns ? kDepth*(kRowStride + kKeyStride)
                                                                                    : kStaged* kColumns;

struct __align__(16) WorkingMemory {
  float weights[kKeys * kRows];  // P, key-major, swizzled: see weight_at
  float stage[kStageFloats];     // columns of Q and K, transposed; or rows of V
};
