#include "runtime/engine/cpu_backend.h"

#include "runtime/engine/cpu_executor.h"
#include "runtime/object/loaded_object.h"

#include <fmt/format.h>

namespace weft {

CpuBackend::CpuBackend(const EngineOptions& options) : workers_(std::make_shared<Workers>(options.threads)) {}

Result<Built> CpuBackend::build(Prepared prepared, const Binaries& binaries) const {
  auto& [front, bind, target, plan] = prepared.planned;
  if (std::string why; !host_can_execute(target, &why)) {
    return environment_error(fmt::format("this machine cannot execute {}: {}", target.name, why));
  }
  const auto& symbol = prepared.names.symbol;
  std::shared_ptr<const object::LoadedObject> object;
  void* entry_point = nullptr;
  const auto load = [&](const cache::Entry& entry) -> Status {
    WEFT_TRY(object, object::LoadedObject::load(entry.binary, front.pattern.name));
    entry_point = object->symbol(symbol);
    if (entry_point == nullptr) return internal_error(fmt::format("the object has no symbol {}", symbol));
    return done;
  };
  WEFT_TRY(auto binary, binaries.find_and_load(prepared, load));

  auto state = make_state(std::move(front), bind, target.name, std::move(prepared.texts));
  state->binary = std::move(binary.entry.binary);
  state->origin_path = binary.place;
  state->executor = std::make_unique<CpuExecutor>(std::move(plan), std::move(object),
                                                  reinterpret_cast<CpuExecutor::Describe>(entry_point), workers_);
  return built(std::move(state), binary, prepared.emit_ms);
}

}  // namespace weft
