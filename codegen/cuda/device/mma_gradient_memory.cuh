#pragma once

#include "codegen/cuda/device/mma_rows.cuh"

// Working memory of gradients by matrix instructions: of a tile's rows what S and what dP is the product of, and the same
// of a block's keys, which are summed up, too.

/// S and dP stand side by side, and registers are few.
constexpr bool kTwoProducts = true;

struct __align__(16) WorkingMemory {
  Source of_keys[2];
  Meets meets;
  float2 terms[kTransposed ? kStages * kKeys : kRows];  // of the queries: see query_terms.cuh
  float units;                                          // of dS as an operand: see scale_of_gradients
  const float2* terms_of_head;                          // those of position 0 of the query head at hand
  __align__(16) unsigned char bytes[kShape.operand_bytes()];
};
