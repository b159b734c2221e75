#pragma once

#include "dsl/findings.h"
#include "dsl/scope.h"

namespace weft::dsl {

/// Warns of a score that hides keys behind a large negative number, and offers the `keep` that leaves them out.
void advise_on_score(const Statement& score, Scope& scope, Findings& findings);

}  // namespace weft::dsl
