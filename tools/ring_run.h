#pragma once

#include "tools/ring_option.h"

#include <weft/ring.h>

#include <vector>

namespace weft::tools {

/// What came of a ring, as one of its ranks knows it.
struct RingRan {
  int rank = 0;
  double ms = 0;  ///< from a barrier to a barrier
  RingSummary summary = {};
  std::vector<RingShare> shares = {};  ///< by rank; on rank 0
  double backward_ms = 0;
  std::vector<RingShare> backward_shares = {};  ///< the same, of a backward pass
  const char* transport = "threads";
};

/// What ranks run: the forward of `whole`, and where there is one the backward pass of `gradients`, which are the
/// forward's arguments with those of the backward.
struct RingPasses {
  const Kernel& forward;
  RunArgs whole = {};
  const Kernel* backward = nullptr;
  RunArgs gradients = {};
};

/// Computes what launches of the passes would, on ranks that are threads and have their own rows of the tensors.
Result<RingRan> run_on_ring(const RingPasses& passes, const RingOf& ring, std::int64_t timeout_ms);

/// The same as one rank of a job of processes: the outputs are there on rank 0.
Result<RingRan> run_in_ring(const RingPasses& passes, const RingOf& ring, std::int64_t timeout_ms,
                            std::unique_ptr<Transport> transport);

/// What of the command line does not go with a ring; empty: nothing.
std::string wrong_with_ring(const Options& options);

}  // namespace weft::tools
