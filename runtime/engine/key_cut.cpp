#include "runtime/engine/key_cut.h"

#include "runtime/engine/kernel_state.h"

namespace weft {

std::int64_t floats_of_state(const ir::Plan& plan) {
  return std::ssize(plan.phases.front().passes) * plan.state_bytes() / static_cast<std::int64_t>(sizeof(float));
}

Status run_cut(const Kernel& kernel, const RunArgs& args, const KeyCut& cut) {
  WEFT_TRY(auto launch, check_launch(contract_of(kernel.state()), args));
  launch.cut = &cut;
  return kernel.state().executor->run(launch, args);
}

}  // namespace weft
