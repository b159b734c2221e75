#pragma once

#include "codegen/cuda/device/mma_rows.cuh"

// Working memory of the kernels that compute by matrix instructions.

/// Only gradients hold two products side by side.
constexpr bool kTwoProducts = false;

constexpr int kColumns = (kDimV + 15) / 16 * 16;  // of V and O

/// Shared memory also keeps what is read once a block, because registers are few.
struct __align__(16) WorkingMemory {
  unsigned char bytes[kShape.operand_bytes()];  // Q, K, V; or O. First, where it begins at a multiple of 128 bytes.
  Source keys, values;
  Meets meets;
};
