#pragma once

#include "compiler/base/result.h"
#include "runtime/engine/launch_checks.h"

#include <weft/weft.h>

namespace weft {

/// What can be wrong with spans, numbers and threads of a launch by themselves.
Status check_spans(const RunArgs& args);

/// What a launch writes, by views of checked extents, may share no memory with what it reads, nor with anything else it
/// writes, nor may two of its own elements. User error that names the two. Views of one buffer are fine where their
/// elements lie between each other's.
Status check_apart(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args);

/// The entries of a page table in host memory that the lengths need: user error that names the first that is no page.
Status check_page_numbers(const Launch& launch, const RunArgs& args);

}  // namespace weft
