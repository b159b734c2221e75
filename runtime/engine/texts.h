#pragma once

#include "codegen/source.h"
#include "compiler/base/fork_safe.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/plan.h"
#include "compiler/target/target.h"

#include <map>
#include <optional>
#include <string>

namespace weft {

/// What one can read of a plan for a target, each made when it is first asked for: a stored kernel starts without
/// them. Thread-safe, and safe in forked processes.
class Texts {
 public:
  Texts(ir::Plan plan, Target target) : plan_(std::move(plan)), target_(std::move(target)) {}

  const codegen::Source& source(ir::Regime regime = ir::Regime::many_queries) const;
  const std::string& plan() const;

  /// Has anybody asked for the source?
  bool emitted(ir::Regime regime = ir::Regime::many_queries) const;

 private:
  const ir::Plan plan_;
  const Target target_;
  mutable ForkSafe<> mutex_;
  mutable std::map<ir::Regime, codegen::Source> sources_;
  mutable std::optional<std::string> plan_text_;
};

}  // namespace weft
