#pragma once

#include "codegen/cuda/device/meets_memory.cuh"

// Rows in shared memory, as matrix instructions want them: as they are stored, padded with zeros to whole fragments. Rows
// are an odd number of 16-byte chunks apart: then the eight rows that a matrix is loaded from meet all banks, and every
// place in a row is a constant distance from its begin, which no swizzle leaves it.

constexpr int bytes_apart(int columns) { return (columns + 15) / 16 * 32 + 16; }
constexpr int kRowBytes = bytes_apart(kDim);
constexpr int kValueBytes = bytes_apart(kDimV);

/// Where rows of K or V are.
struct __align__(16) Source {
  const unsigned char* base;
  i64 step, page;  // bytes between rows of a page, and between pages
  int aligned;     // Views::aligned
  int first;       // kTransposed: the position of row 0
};
