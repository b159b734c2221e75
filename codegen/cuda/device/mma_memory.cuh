#pragma once

#include "codegen/cuda/device/meets_memory.cuh"

// Working memory of the kernels that compute by matrix instructions: rows of Q, K and V as they are stored, padded with
// zeros to whole fragments. Rows are an odd number of 16-byte chunks apart: then the eight rows that a matrix is loaded
// from meet all banks, and every place in a row is a constant distance from its begin, which no swizzle leaves it.

constexpr int kWide = (kDim + 15) / 16 * 16;      // columns of Q and K
constexpr int kColumns = (kDimV + 15) / 16 * 16;  // columns of V and O
constexpr int bytes_apart(int columns) { return (columns + 15) / 16 * 32 + 16; }
constexpr int kRowBytes = bytes_apart(kDim);
constexpr int kValueBytes = bytes_apart(kDimV);

constexpr int kStageBytes = kKeys * (kRowBytes + kValueBytes);
constexpr int kStagedBytes = kRows * kRowBytes + kStages * kStageBytes;
// Of a row of O on its way out: 8 apart, a half warp's pairs meet all banks. What would take more room than everything
// else goes in two parts.
constexpr int kResultParts = kRows * (kColumns + 8) * 4 > kStagedBytes ? 2 : 1;
constexpr int kPartColumns = kColumns / kResultParts;
constexpr int kResultFloats = kPartColumns + 8;
constexpr int kWorkingBytes =
    kStagedBytes > kRows * kResultFloats * 4 ? kStagedBytes : kRows * kResultFloats * 4;

/// Where rows of K or V are.
struct __align__(16) Source {
  const unsigned char* base;
  i64 step, page;  // bytes between rows of a page, and between pages
  int aligned;     // Views::aligned
};

/// Shared memory also keeps what is read once a block, because registers are few.
struct __align__(16) WorkingMemory {
  Source keys, values;
  Meets meets;
  unsigned char bytes[kWorkingBytes];  // Q, K, V; or O
};
