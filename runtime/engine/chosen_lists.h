#pragma once

#include "codegen/args.h"
#include "compiler/ir/chosen_keys.h"
#include "compiler/ir/plan.h"
#include "runtime/engine/launch_checks.h"

#include <weft/weft.h>

#include <vector>

/// Lists of chosen keys as callers see them: in the order of ir::chosen_sets, in memory of their own.
namespace weft {

/// One for each of ir::chosen_sets, for launches of this shape, offsets included.
std::vector<ChosenList> chosen_lists(const ir::Pattern& pattern, const ir::Shape& shape);

/// Lets the lists that the caller wants be made where the caller wants them; the others stay where place_lists put
/// them. Internal error where the plan makes no such list.
Status use_caller_lists(const ir::Plan& plan, const ir::Pattern& pattern, const Launch& launch, weft_args& block);

/// What stands in the lists of a launch, which are host memory; only those with data.
std::vector<ir::ChosenKeys> read_lists(const ir::Pattern& pattern, const Launch& launch);

/// Fills the lists of a launch as the interpreter chooses.
void interpret_lists(const ir::Pattern& pattern, const Launch& launch, const ir::InputValues& inputs,
                     const ir::Tensor& q, const ir::Tensor& k);

}  // namespace weft
