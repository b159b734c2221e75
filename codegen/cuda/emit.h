#pragma once

#include "codegen/source.h"
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
Source emit(const ir::Plan& plan, const Target& target);

/// Of the kernels that emit() would give.
Names names(const ir::Plan& plan);

/// How the kernels are launched: one-dimensional grids of one-dimensional blocks, with dynamic shared memory only.
struct Geometry {
  int threads = 0;                   ///< of a block
  std::int64_t shared_fixed = 0;     ///< bytes of dynamic shared memory a block needs …
  std::int64_t shared_per_term = 0;  ///< … and for each of `weft_args::most_terms`
  int prepass_threads = 0;           ///< of a block of the prepass; 0: there is none
  std::int64_t prepass_shared = 0;   ///< bytes
  std::int64_t shared_bytes(std::int64_t most_terms) const { return shared_fixed + most_terms * shared_per_term; }
};
Geometry geometry(const ir::Plan& plan);

}  // namespace weft::codegen::cuda
