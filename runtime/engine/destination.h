#pragma once

#include "compiler/base/result.h"
#include "compiler/target/target.h"

#include <optional>
#include <string>
#include <vector>

namespace weft {

/// What CompileOptions::target names: facts to plan and emit for, and where the kernel shall run.
struct Destination {
  enum class Kind { interpreter, cpu, cuda, emulate } kind = Kind::cpu;
  Target target;
  std::optional<int> device = {};  ///< of `cuda`; none: any GPU that runs the target's binaries
};

/// `interpreter`, `cpu`, `cpu:NAME`, `cuda` (GPU 0), `cuda:N`, `sm_NN` (compiled here, run where there is such a
/// GPU), `emulate:sm_NN` (the emitted text on the host). User error for any other name; environment error where a
/// GPU is named and not there. A driver is opened for `cuda` only.
Result<Destination> find_destination(const std::string& name);

/// What else will do where a bundle lacks the very target that was asked for: for `cpu`, every row that this machine
/// executes; for a GPU, every row whose binaries it runs. The best first; without the destination's own target.
std::vector<Target> substitutes_for(const std::string& name, const Destination& destination);

/// The GPU that kernels run on where nobody says: `cuda` where there is one that is usable.
bool has_usable_gpu();

}  // namespace weft
