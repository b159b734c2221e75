#pragma once

#include "codegen/source.h"
#include "compiler/ir/plan.h"

#include <cstdint>

/// The prepass of a plan with lists (`random`, `top`): a text of its own, with the kernel
/// `extern "C" __global__ void weft_lists(const weft_args a)`. Phase 2 i of it pools the keys of list i, one block of
/// threads a block of keys of each kv head; phase 2 i + 1 fills the list, one block of threads a row of blocks.
namespace weft::codegen::cuda {

/// For plans that have lists.
Source emit_lists(const ir::Plan& plan);

inline constexpr int kListThreads = 128;

/// Dynamic shared memory of a block, bytes.
std::int64_t list_shared_bytes(const ir::Plan& plan);

/// Is there anything to pool for this list?
inline bool pools(const ir::List& list) { return list.kind == ir::List::Kind::top && list.input < 0; }

}  // namespace weft::codegen::cuda
