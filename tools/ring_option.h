#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/pattern.h"
#include "laboratory/explain/ring_report.h"
#include "tools/options.h"

#include <optional>

namespace weft::tools {

using explain::RingOf;

/// What `--ring R[:LAYOUT]` and the pattern's own `ring` say together; nothing without the option. User error where the
/// two contradict each other.
Result<std::optional<RingOf>> ring_of(const Options& options, const ir::Pattern& pattern);

/// Is it `mpi` or `nccl`, a ring of the processes of an MPI job?
bool is_mpi_ring(const Options& options);
/// Is it `nccl`, in which rows go from GPU to GPU?
bool is_nccl_ring(const Options& options);
/// The same options, with the number of ranks in place of `mpi` or `nccl`.
Options with_ranks(Options options, std::int64_t ranks);

/// What is wrong with the option by itself; empty: nothing.
std::string wrong_ring(const Options& options);

}  // namespace weft::tools
