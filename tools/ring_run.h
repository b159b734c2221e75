#pragma once

#include "tools/ring_option.h"

#include <weft/ring.h>

#include <vector>

namespace weft::tools {

/// What came of a ring whose ranks are threads of this process.
struct RingRan {
  double ms = 0;  ///< from a barrier to a barrier
  RingSummary summary = {};
  std::vector<RingShare> shares = {};  ///< by rank
};

/// Computes what one launch of `whole` would, on ranks that have their own rows of its tensors.
Result<RingRan> run_on_ring(const Kernel& kernel, const RunArgs& whole, const RingOf& ring, std::int64_t timeout_ms);

/// What of the command line does not go with a ring; empty: nothing.
std::string wrong_with_ring(const Options& options);

}  // namespace weft::tools
