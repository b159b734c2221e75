#pragma once

#include "compiler/ir/pattern.h"
#include "runtime/engine/front.h"
#include "runtime/engine/launch_checks.h"
#include "runtime/engine/texts.h"

#include <weft/weft.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// How a backend runs a kernel it has loaded. Immutable after construction, as far as callers can tell.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual Status run(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const = 0;
  virtual Result<std::size_t> workspace(const ir::Shape& shape, int threads) const = 0;
  /// Makes what launches of this shape need once, and would make themselves.
  virtual Result<BuildTimes> prepare(const ir::Shape&) const { return BuildTimes(); }
  /// Or memory of a device, which the host cannot look at?
  virtual bool reads_host_memory() const { return true; }
  /// Shared memory of a block, where there are blocks.
  virtual std::optional<std::int64_t> shared_bytes(std::int64_t) const { return std::nullopt; }
};

struct Kernel::State {
  ir::Pattern pattern;
  DType dtype = DType::f32;
  bool any_float = false;
  bool branch_lse = false;
  bool gradient = false;  ///< it is the backward pass
  bool paged = false;
  std::string pattern_text, target;
  std::shared_ptr<const Texts> texts;  ///< null on the interpreter
  std::string binary;                  ///< the object or cubin that is loaded; empty where nothing is
  std::string origin_path;             ///< where `binary` was read from; empty where it was compiled
  std::optional<int> registers, spill_bytes;
  std::vector<Diagnostic> warnings;
  std::unique_ptr<const Executor> executor;
};

/// What launches of the kernel must agree with.
LaunchContract contract_of(const Kernel::State& state);

/// What a backend makes of a plan.
struct Built {
  std::shared_ptr<const Kernel::State> state;
  CacheOrigin origin = CacheOrigin::miss;
  BuildTimes times = {};
};

/// All of a compiled kernel's state that does not depend on how it is run.
std::shared_ptr<Kernel::State> make_state(Front front, const ir::Bind& bind, std::string target,
                                          std::shared_ptr<const Texts> texts);

}  // namespace weft
