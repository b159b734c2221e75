#pragma once

#include "compiler/ir/pattern.h"
#include "runtime/engine/launch_checks.h"

#include <weft/weft.h>

#include <memory>
#include <string>
#include <vector>

namespace weft {

/// How a backend runs a kernel it has loaded. Immutable after construction, as far as callers can tell.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual Status run(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const = 0;
  virtual Result<std::size_t> workspace(const RunShape& shape, int threads) const = 0;
};

struct Kernel::State {
  ir::Pattern pattern;
  DType dtype = DType::f32;
  bool any_float = false;
  bool branch_lse = false;
  std::string pattern_text, plan_text, source_text, target;
  std::string binary;  ///< the object that is loaded; empty on the interpreter
  std::vector<Diagnostic> warnings;
  std::unique_ptr<const Executor> executor;
};

}  // namespace weft
