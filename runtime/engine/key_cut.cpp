#include "runtime/engine/key_cut.h"

#include "runtime/engine/kernel_state.h"

#include <fmt/format.h>

namespace weft {

std::int64_t floats_of_state(const ir::Plan& plan) {
  return std::ssize(plan.phases.front().passes) * plan.state_bytes() / static_cast<std::int64_t>(sizeof(float));
}

Status check_key_cuts(const ir::Plan& plan) {
  if (plan.choices.kernel_class == ir::KernelClass::vector || plan.may_cut_keys()) return done;
  return user_error(
      fmt::format("{}: GPU kernels do not cut the keys of a row where one softmax takes {} launches, or where there "
                  "are {} of them",
                  plan.name, plan.phases.size(), plan.phases.front().passes.size()));
}

Status run_cut(const Kernel& kernel, const RunArgs& args, const KeyCut& cut) {
  WEFT_TRY(auto launch, check_launch(contract_of(kernel.state()), args));
  launch.cut = &cut;
  return kernel.state().executor->run(launch, args);
}

}  // namespace weft
