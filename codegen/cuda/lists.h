#pragma once

#include "compiler/base/text_writer.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"
#include "compiler/ir/steps.h"

#include <cstdint>

/// The prepass of a plan with lists: a second kernel of the plan's text, `extern "C" __global__ void
/// weft_prepass(const weft_args a)`. Phase 2 i of it pools the keys of list i, one block of threads a block of keys of
/// each kv head; phase 2 i + 1 fills the list, one block of threads a row of blocks, ir::kListedRows of them where keys
/// are scored, or a unit of a summary.
namespace weft::codegen::cuda {

/// Plans that stand beside that of dQ have its lists, and the text of few queries those that the other's prepass
/// filled.
inline bool has_prepass(const ir::Plan& plan, ir::Regime regime) {
  return !plan.lists.empty() && !ir::is_of_few(regime) && plan.stationary() == ir::Stationary::query &&
         plan.phases.front().role == ir::Role::attend;
}
bool has_summaries(const ir::Plan& plan);  ///< by which tiles of rows pass over keys
bool has_choosers(const ir::Plan& plan);
bool has_spans(const ir::Plan& plan);
/// Has it lists of `random` or `top`?
bool chooses_keys(const ir::Plan& plan);
/// … of `top`?
bool chooses_best(const ir::Plan& plan);

/// For plans that have one: behind the headers of the text and its constants, of which it uses kPrepassThreads, kDim,
/// kPaged and kStored.
void write_prepass(TextWriter& w, const ir::Plan& plan);

/// Dynamic shared memory of a block, bytes.
std::int64_t prepass_shared_bytes(const ir::Plan& plan);

}  // namespace weft::codegen::cuda
