#pragma once

#include "codegen/cuda/device/meets_memory.cuh"
#include "codegen/cuda/device/shape.cuh"

// Working memory of the kernels that compute on plain lanes.

constexpr BlockShape kShape = on_plain_lanes(shape_of_block(), kDepth, kStaged);
constexpr int kColumns = kShape.columns();  // of values as staged
constexpr int kStageHalf = kShape.chunk_floats();

/// Where a tensor of the tile's batch entry and head begins, and how far its rows are apart, in bytes.
enum Tensor { kQ, kK, kV, kTensors };
struct View {
  unsigned char* base;
  i64 step;
};

struct __align__(16) WorkingMemory {
  float weights[32 * kThreads];           // P of some keys, key-major, swizzled: see FourRows
  union {
    float stage[2 * kStageHalf];  // two chunks: columns of Q and K, transposed; or rows of V
    Meets meets;                  // before the first of a block
  };
  float start[kKeys];                     // what scores of the block's keys start with
  float maxima[kRows];                    // m …
  float sums[8 * kThreads];               // … and l: see maxima_at, sums_at
  int stream[kThreads / 32];              // of each warp: see park
  const unsigned char* value_row[kKeys];  // where V of the block's keys is, by place
  View views[kTensors];
  int misaligned[kTensors];  // 0 where rows may be read or written 16 bytes at a time
};
static_assert(sizeof(Meets) <= 2 * kStageHalf * sizeof(float), "no memory of its own");
