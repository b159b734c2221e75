#pragma once

#include "codegen/source.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"
#include "compiler/target/target.h"

/// `Plan` → LLVM IR text for one CPU target.
///
/// The text's only symbol, `void weft_kernel(MicroKernels*)`, hands over what codegen/cpu/micro_kernels.h lists:
/// functions on vectors of rows. Lanes of a vector are query rows: Q is transposed once a tile, scores and outputs are
/// computed transposed (S^T = K Q^T, O^T = V^T P) by broadcasting K and V straight from memory, so K and V need not be
/// packed (V of pairs of bf16 is, once a block) and row maxima and sums need no step across lanes. Where a launch has
/// few queries, lanes are columns of K and V instead. Full blocks of keys run without any mask; partial ones weigh
/// every pair and skip sub-tiles that keep nothing. Which keys a tile visits, runtime/cpu finds out.
namespace weft::codegen::cpu {

/// Never fails on a plan that verifies with stationary queries; the text depends on the plan's binding,
/// choices and shape of its passes, not on the numbers in its ranges: those are tables. So patterns that
/// differ in segment lengths or rates share a binary. That of few queries holds what such launches call beside the
/// micro-kernels of many queries; the layout is the same.
Source emit(const ir::Plan& plan, const Target& target, ir::Regime regime = ir::Regime::many_queries);

/// Of the kernels that emit() would give.
Names names(const ir::Plan& plan, ir::Regime regime = ir::Regime::many_queries);

}  // namespace weft::codegen::cpu
