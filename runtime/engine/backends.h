#pragma once

#include "codegen/source.h"
#include "compiler/base/result.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"
#include "compiler/target/target.h"
#include "kernels_cache/entry.h"
#include "runtime/engine/binaries.h"
#include "runtime/engine/compilers.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/workers.h"

#include <memory>
#include <string>

namespace weft {

/// What loading a kernel may use.
struct Loading {
  const Destination& destination;
  std::shared_ptr<const Binaries> binaries;
  std::shared_ptr<const Workers> workers;
};

/// All that the engine does differently for a kind of destination. The functions are in the order of the stages; a
/// stage that the kind has not is null.
struct Backend {
  const char* name;                                      ///< in keys
  std::string (*options)();                              ///< of its compiler, as keys have them
  codegen::Names (*names)(const ir::Plan&, ir::Regime);  ///< of the kernels that `emit` would give
  std::string (*launch)(const ir::Plan&);
  codegen::Source (*emit)(const ir::Plan&, const Target&, ir::Regime);
  Result<std::string> (Compilers::*identity)(const Target&) const;
  Result<cache::Entry> (Compilers::*build)(const Compilation&, ir::Regime) const;
  /// Is it what `build` gives, as far as that can be told without loading it? Internal error.
  Status (*check)(const cache::Entry&);
  /// Finds or compiles what the kernel's launches need, and makes what runs it.
  Status (*load)(Kernel::State&, const Loading&);
};

const Backend& backend_of(Destination::Kind kind);
/// That compiles for the target.
const Backend& backend_of(const Target& target);

// The last stage of each (cpu_executor, cuda_executor, emulate_executor).
Status load_interpreter(Kernel::State& kernel, const Loading& with);
Status load_cpu(Kernel::State& kernel, const Loading& with);
Status load_cuda(Kernel::State& kernel, const Loading& with);
Status load_emulated(Kernel::State& kernel, const Loading& with);

}  // namespace weft
