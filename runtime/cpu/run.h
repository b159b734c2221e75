#pragma once

#include "codegen/cpu/micro_kernels.h"

namespace weft::cpu {

struct Sums;

/// Does what the block says, in its scratch: row tiles [tile_begin, tile_end) of its phase; of phase -1 - i, unit
/// number `tile_end` of the list that summarizes a condition, of `tiles_per_head` for each (batch entry, head).
void run(const codegen::cpu::MicroKernels& kernels, const weft_args& args);

/// Tiles of gradients, which add up in `sums` what keys and inputs get. Throws std::bad_alloc where there is no memory
/// for that.
void run_backward(const codegen::cpu::MicroKernels& kernels, const weft_args& args, Sums& sums);

}  // namespace weft::cpu
