#pragma once

#include "runtime/engine/compilation.h"
#include "runtime/engine/launch_checks.h"

#include <weft/weft.h>

#include <memory>
#include <optional>
#include <vector>

namespace weft {

/// How a backend runs a kernel it has loaded, which outlives it. Immutable after construction, as far as callers can
/// tell.
class Executor {
 public:
  explicit Executor(const Compilation& kernel) : kernel_(kernel) {}
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual Status run(const Launch& launch, const RunArgs& args) const = 0;
  virtual Result<std::size_t> workspace(const ir::Shape& shape, int threads) const = 0;
  /// Makes what launches of this shape need once, and would make themselves; with sizes in a device's memory, or not.
  virtual Result<BuildTimes> prepare(const ir::Shape&, bool) const { return BuildTimes(); }
  /// Or memory of a device, which the host cannot look at?
  virtual bool reads_host_memory() const { return true; }
  /// Do its kernels read RunArgs::sizes_at?
  virtual bool reads_sizes() const { return false; }
  /// Shared memory of a block of a text with so many heads, where there are blocks.
  virtual std::optional<std::int64_t> shared_bytes(ir::Regime, std::int64_t) const { return std::nullopt; }

 protected:
  const Compilation& kernel_;
};

/// The record of a kernel, complete.
struct Kernel::State : Compilation {
  using Compilation::Compilation;
  std::string resolved = target.name;  ///< the target, as people name it
  std::vector<ir::Regime> texts;       ///< that are there from the beginning
  Binary binary;                       ///< of the first of them; no entry where nothing is stored
  std::unique_ptr<const Executor> executor;
};

/// What launches of the kernel must agree with.
LaunchContract contract_of(const Kernel::State& state);

}  // namespace weft
