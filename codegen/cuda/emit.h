#pragma once

#include "codegen/source.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"
#include "compiler/target/target.h"

#include <cstdint>
#include <string>

/// `Plan` → one self-contained CUDA C++ text: constants of the plan, then device headers
/// (codegen/cuda/device/), then the kernel `extern "C" __global__ void weft_kernel(const weft_args a)`. Before it,
/// where the plan has a prepass, that of codegen/cuda/lists.h.
///
/// One block of threads computes one row tile of one phase: block i of a launch is tile number
/// `tile_begin + i` of codegen/args.h. Nothing is included, so NVRTC needs no header search path.
namespace weft::codegen::cuda {

/// Never fails on a plan for a CUDA target that verifies. The text depends on the plan's binding,
/// choices, shape of its passes and the kinds of conditions in them, not on their numbers: those are tables.
/// One text of those that ir::regimes_of(plan) names.
Source emit(const ir::Plan& plan, const Target& target, ir::Regime regime = ir::Regime::many_queries);

/// Of the kernels that emit() would give.
Names names(const ir::Plan& plan, ir::Regime regime = ir::Regime::many_queries);

/// Dynamic shared memory of a block of threads, bytes; kernels have no other. Grids stand in compiler/ir/steps.h.
struct SharedMemory {
  std::int64_t fixed = 0;     ///< of the kernel …
  std::int64_t per_term = 0;  ///< … and for each of `weft_args::most_terms`
  std::int64_t prepass = 0;   ///< of the prepass
  std::int64_t with_terms(std::int64_t most_terms) const { return fixed + most_terms * per_term; }
};
SharedMemory shared_memory(const ir::Plan& plan, ir::Regime regime = ir::Regime::many_queries);

}  // namespace weft::codegen::cuda
