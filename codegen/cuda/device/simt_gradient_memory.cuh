#pragma once

#include "codegen/cuda/device/meets_memory.cuh"
#include "codegen/cuda/device/shape.cuh"

// Working memory of gradients on plain lanes: see simt_memory.cuh.

constexpr BlockShape kShape = on_plain_lanes(shape_of_block(), kDepth, kStaged);
constexpr int kColumns = kShape.columns();  // of values as staged
constexpr int kStageHalf = kShape.chunk_floats();

/// Where a tensor of the tile's batch entry and head begins, and how far its rows are apart, in bytes.
enum Tensor { kQ, kK, kV, kDO, kTensors };
struct View {
  unsigned char* base;
  i64 step;
};

struct __align__(16) WorkingMemory {
  float weights[32 * kThreads];  // P or dS of some keys, key-major, swizzled: see FourRows
  union {
    float stage[2 * kStageHalf];  // two chunks: columns of rows and keys, transposed; or rows of values
    Meets meets;                  // before the first of a block
  };
  float2 terms[kTransposed ? kKeys : kRows];  // of the queries: see query_terms.cuh
  int stream[kThreads / 32];                  // of each warp: see park
  const unsigned char* value_row[2][kKeys];   // where the two rows of the block's keys are, by place
  View views[kTensors];
  int misaligned[kTensors];  // 0 where rows may be read or written 16 bytes at a time
};
static_assert(sizeof(Meets) <= 2 * kStageHalf * sizeof(float), "no memory of its own");
