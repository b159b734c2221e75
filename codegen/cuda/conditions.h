#pragma once

#include "compiler/base/text_writer.h"
#include "compiler/ir/plan.h"

/// The plan's conditions on pairs, and its forms, as the functions that codegen/cuda/device/conditions.cuh declares.
namespace weft::codegen::cuda {

inline bool has_conditions(const ir::Plan& plan) { return !plan.predicates.empty() || !plan.forms.empty(); }
/// Does some condition on pairs compare values of the key that ints hold?
bool compares_values(const ir::Plan& plan);
/// May one of them be a bound of keys? See codegen/cuda/device/value_bounds.cuh; one on rows alone is.
bool narrows_keys(const ir::Plan& plan);
/// Do conditions say the same of all heads?
bool serve_all_heads(const ir::Plan& plan);
/// Units of ir::kSummaryBlock keys: of one, each condition that is asked of many keys at once says the same. 0 where
/// nothing says of many that no row keeps one. See codegen/cuda/device/skips.cuh.
int units_of_block(const ir::Plan& plan);
/// Do conditions say what a list of chosen keys says?
bool follows_lists(const ir::Plan& plan);
/// Digits of the number of branches that may keep a pair, in base 2; 0 where that is one at most.
int digits(const ir::Plan& plan);
/// Do conditions say the same of as many keys as are computed at a time, where runs of keys can be?
bool has_sets(const ir::Plan& plan);
inline bool passes_over_keys(const ir::Plan& plan) { return units_of_block(plan) > 0; }
void write_conditions(TextWriter& w, const ir::Plan& plan);

}  // namespace weft::codegen::cuda
