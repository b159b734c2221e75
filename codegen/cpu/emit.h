#pragma once

#include "codegen/source.h"
#include "compiler/ir/plan.h"
#include "compiler/target/target.h"

#include <cstdint>

/// `Plan` → LLVM IR text for one CPU target.
///
/// The kernel is `void weft_kernel(const weft_args*)`. It runs row tiles [tile_begin, tile_end) of one
/// phase. Lanes of a vector are query rows: Q is transposed once a tile, scores and outputs are computed
/// transposed (S^T = K Q^T, O^T = V^T P) by broadcasting K and V straight from memory, so K and V need not be
/// packed (V of pairs of bf16 is, once a block) and row maxima and sums need no step across lanes. Where a launch
/// has few queries, lanes are columns of K and V instead. Full blocks of keys run without any
/// mask; partial ones weigh every pair and skip sub-tiles that keep nothing. Which keys a tile visits is
/// computed in the kernel from the tables (codegen/tables_image.h), tile by tile, as
/// compiler/ir/schedule.h describes.
namespace weft::codegen::cpu {

/// Never fails on a plan that verifies with stationary queries; the text depends on the plan's binding,
/// choices and shape of its passes, not on the numbers in its ranges: those are tables. So patterns that
/// differ in segment lengths or rates share a binary.
Source emit(const ir::Plan& plan, const Target& target);

/// Of the kernels that emit() would give.
Names names(const ir::Plan& plan);

/// Bytes of `weft_args::scratch` that one call needs.
std::int64_t scratch_bytes(const ir::Plan& plan, const Target& target, std::int64_t most_terms);

}  // namespace weft::codegen::cpu
