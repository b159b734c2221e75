#include "runtime/engine/texts.h"

#include "codegen/cpu/emit.h"
#include "codegen/cuda/emit.h"

#include <mutex>

namespace weft {

const codegen::Source& Texts::source() const {
  const std::lock_guard lock(mutex_);
  if (!source_) {
    const bool cuda = target_.kind == TargetKind::cuda;
    source_ = cuda ? codegen::cuda::emit(plan_, target_) : codegen::cpu::emit(plan_, target_);
  }
  return *source_;
}

const std::string& Texts::plan() const {
  const std::lock_guard lock(mutex_);
  if (!plan_text_) plan_text_ = ir::print(plan_);
  return *plan_text_;
}

bool Texts::emitted() const {
  const std::lock_guard lock(mutex_);
  return source_.has_value();
}

}  // namespace weft
