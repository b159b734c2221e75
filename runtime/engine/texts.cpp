#include "runtime/engine/texts.h"

#include "codegen/cpu/emit.h"
#include "codegen/cuda/emit.h"

#include <mutex>

namespace weft {

const codegen::Source& Texts::source(ir::Regime regime) const {
  const std::lock_guard lock(mutex_);
  const auto known = sources_.find(regime);
  if (known != sources_.end()) return known->second;
  const bool cuda = target_.kind == TargetKind::cuda;
  auto made = cuda ? codegen::cuda::emit(plan_, target_) : codegen::cpu::emit(plan_, target_, regime);
  return sources_.emplace(regime, std::move(made)).first->second;
}

const std::string& Texts::plan() const {
  const std::lock_guard lock(mutex_);
  if (!plan_text_) plan_text_ = ir::print(plan_);
  return *plan_text_;
}

bool Texts::emitted(ir::Regime regime) const {
  const std::lock_guard lock(mutex_);
  return sources_.contains(regime);
}

}  // namespace weft
