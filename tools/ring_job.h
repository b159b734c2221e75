#pragma once

#include "tools/console.h"
#include "tools/options.h"

#include <weft/ring.h>

#include <functional>

namespace weft::tools {

inline constexpr std::int64_t kRingTimeoutMs = 60'000;

/// Runs as one rank of a job of MPI's: `run` with the options of that rank, of which rank 0 alone prints. Its status.
int run_in_job(const Options& options, const Console& console,
               const std::function<int(const Options&, std::unique_ptr<Transport>, const Console&)>& run);

}  // namespace weft::tools
