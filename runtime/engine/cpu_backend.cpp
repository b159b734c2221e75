#include "runtime/engine/cpu_backend.h"

#include "codegen/args.h"
#include "codegen/cpu/emit.h"
#include "runtime/engine/cpu_executor.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/library.h"
#include "runtime/llvm/search.h"

#include <fmt/format.h>

namespace weft {

namespace {

/// What the runtime must know beside the object, as the entry's `launch` section.
std::string launch_text(const std::string& symbol) { return fmt::format("abi {}\nsymbol {}\n", kWeftArgsAbi, symbol); }

}  // namespace

Result<cache::Key> cpu_kernel_key(const std::string& source, const Target& target, const std::string& llvm) {
  WEFT_TRY(const auto identity, llvm::identity(llvm));
  cache::Key key;
  key.add("backend", "cpu")
      .add("abi", std::to_string(kWeftArgsAbi))
      .add("target", target.name)
      .add("cpu", target.llvm_cpu)
      .add("features", target.llvm_features)
      .add("compiler", identity)
      .add("options", llvm::Options{}.text())
      .add_digest_of("source", source);
  return key;
}

CpuBackend::CpuBackend(const EngineOptions& options)
    : llvm_(options.llvm), workers_(std::make_shared<Workers>(options.threads)) {}

Result<Built> CpuBackend::build(Planned planned, const Binaries& binaries) const {
  auto& front = planned.front;
  auto& plan = planned.plan;
  const auto& bind = planned.bind;
  const auto& target = planned.target;
  if (std::string why; !host_can_execute(target, &why)) {
    return environment_error(fmt::format("this machine cannot execute {}: {}", target.name, why));
  }
  const Stopwatch emitting;
  auto source = codegen::cpu::emit(plan, target);
  const double emit_ms = emitting.ms();
  WEFT_TRY(const auto key, cpu_kernel_key(source.text, target, llvm_));
  const auto plan_text = ir::print(plan);
  WEFT_TRY(auto binary, binaries.find_or_compile(key, launch_text(source.symbol), [&]() -> Result<cache::Entry> {
    WEFT_TRY(const auto library, llvm::Library::open(llvm_));
    WEFT_TRY(auto object, llvm::compile(*library, source.text, target));
    return cache::Entry{.binary = std::move(object), .source = source.text, .plan = plan_text};
  }));

  const Stopwatch loading;
  WEFT_TRY(auto object, object::LoadedObject::load(binary.entry.binary, front.pattern.name));
  auto* const entry_point = object->symbol(source.symbol);
  if (entry_point == nullptr) return internal_error(fmt::format("the object has no symbol {}", source.symbol));
  binary.load_ms += loading.ms();

  auto state = make_state(std::move(front), bind, target.name, plan_text, std::move(source.text));
  state->binary = std::move(binary.entry.binary);
  state->executor = std::make_unique<CpuExecutor>(std::move(plan), target, std::move(object),
                                                  reinterpret_cast<CpuExecutor::Function>(entry_point), workers_);
  return built(std::move(state), binary, emit_ms);
}

}  // namespace weft
