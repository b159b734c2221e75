#pragma once

#include "runtime/ring/link.h"

#include <vector>

namespace weft {

/// Collective: each rank's numbers, as many everywhere, become their sums over all ranks, added in the order of the
/// ranks: the same bits on all of them, and whenever bytes arrive. A rank adds up a part of the numbers and sends it to
/// the others.
Status add_over_ranks(Link& link, std::vector<float>& numbers);

}  // namespace weft
