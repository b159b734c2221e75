#include "runtime/engine/cpu_backend.h"

#include "runtime/engine/cpu_executor.h"

#include <fmt/format.h>

namespace weft {

CpuBackend::CpuBackend(const EngineOptions& options) : workers_(std::make_shared<Workers>(options.threads)) {}

Result<Built> CpuBackend::build(Prepared prepared, std::shared_ptr<const Binaries> binaries) const {
  auto& [front, bind, target, plan] = prepared.planned;
  if (std::string why; !host_can_execute(target, &why)) {
    return environment_error(fmt::format("this machine cannot execute {}: {}", target.name, why));
  }
  WEFT_TRY(auto made, CpuKernels::make(prepared, std::move(binaries)));

  auto state = make_state(std::move(front), bind, target.name, std::move(prepared.texts));
  state->binary = std::move(made.binary.entry.binary);
  state->origin_path = made.binary.place;
  state->executor = std::make_unique<CpuExecutor>(std::move(plan), std::move(made.kernels), workers_);
  return built(std::move(state), made.binary, prepared.emit_ms);
}

}  // namespace weft
