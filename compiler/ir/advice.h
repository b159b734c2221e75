#pragma once

#include "compiler/ir/names.h"
#include "dsl/findings.h"

namespace weft::ir {

/// Warns of a score that hides keys behind a large negative number, and offers the `keep` that leaves them out.
void advise_on_score(const dsl::Statement& score, Names& names, dsl::Findings& findings);

}  // namespace weft::ir
