#pragma once

#include "codegen/cuda/device/meets_memory.cuh"
#include "codegen/cuda/device/shape.cuh"

// Rows in shared memory, as matrix instructions want them: as they are stored, padded with zeros to whole fragments. Every
// place in a row is a constant distance from its begin, which no swizzle leaves it.
//
// For instructions of a warp, rows are an odd number of 16-byte chunks apart: then the eight rows that a matrix is loaded
// from meet all banks. Those of groups read pieces of eight rows by 16 bytes, one chunk behind the other: eight rows are a
// row of pieces, and eight lanes copy to a piece.

constexpr BlockShape kShape = by_matrices(shape_of_block(), kStages, kByGroups);
constexpr int kRowBytes = kShape.row_bytes(), kValueBytes = kShape.value_bytes();
constexpr int kStageBytes = kShape.stage_bytes();
constexpr int kResultParts = kShape.result_parts(), kResultFloats = kShape.result_floats();
constexpr int kPieceBytes = 8 * 16;

/// Where 16 bytes of a row are, of rows that take so many.
template <int kApart>
constexpr int place_of(int row, int chunk) {
  return kByGroups ? row / 8 * (8 * kApart) + chunk * kPieceBytes + row % 8 * 16 : row * kApart + chunk * 16;
}
template <int kApart>
constexpr int place_of_byte(int row, int byte) {
  return place_of<kApart>(row, byte / 16) + byte % 16;
}

/// Neighbouring lanes that share a row of so many parts: a power of two.
constexpr int lanes_of_row(int parts) { return parts > 1 ? 2 * lanes_of_row((parts + 1) / 2) : 1; }

/// Where rows of K or V are.
struct __align__(16) Source {
  const unsigned char* base;
  i64 step, page;  // bytes between rows of a page, and between pages
  int aligned;     // Views::aligned
  int first;       // kTransposed: the position of row 0
};
