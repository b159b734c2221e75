#pragma once

#include "codegen/cuda/device/mma_rows.cuh"

// Working memory of the kernels that compute by matrix instructions.

/// Only gradients hold two products side by side.
constexpr bool kTwoProducts = false;

constexpr int kColumns = (kDimV + 15) / 16 * 16;  // of V and O
constexpr int kStageBytes = kKeys * (kRowBytes + kValueBytes);
constexpr int kStagedBytes = kRows * kRowBytes + kStages * kStageBytes;
// Of a row of O on its way out: 8 apart, a half warp's pairs meet all banks. What would take more room than everything
// else goes in two parts.
constexpr int kResultParts = kRows * (kColumns + 8) * 4 > kStagedBytes ? 2 : 1;
constexpr int kPartColumns = kColumns / kResultParts;
constexpr int kResultFloats = kPartColumns + 8;
constexpr int kWorkingBytes =
    kStagedBytes > kRows * kResultFloats * 4 ? kStagedBytes : kRows * kResultFloats * 4;

/// Shared memory also keeps what is read once a block, because registers are few.
struct __align__(16) WorkingMemory {
  unsigned char bytes[kWorkingBytes];  // Q, K, V; or O. First, where it begins at a multiple of 128 bytes.
  Source keys, values;
  Meets meets;
};
