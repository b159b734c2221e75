#pragma once

#include "compiler/ring/stretches.h"

namespace weft::ring {

/// Pairs that a term without filters keeps of some rows and keys, in closed form: what grows is the number of segments only.
double pairs_of(const TermForm& term, const Run& rows, const Keys& keys = {});

}  // namespace weft::ring
