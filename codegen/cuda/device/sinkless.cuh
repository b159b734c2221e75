#pragma once

#include "codegen/cuda/device/block.cuh"

// Where a pattern's text has the logit of a head's sink: for plans without one, which never ask.

__device__ __forceinline__ float sink_logit(const weft_args&, int) { return 0; }
