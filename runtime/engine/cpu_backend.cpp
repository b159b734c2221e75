#include "runtime/engine/cpu_backend.h"

#include "codegen/args.h"
#include "codegen/cpu/emit.h"
#include "runtime/engine/cpu_executor.h"
#include "runtime/llvm/library.h"
#include "runtime/llvm/search.h"

#include <fmt/format.h>

#include <chrono>

namespace weft {

namespace {

class Stopwatch {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

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

CpuBackend::CpuBackend(EngineOptions options)
    : options_(std::move(options)),
      store_(cache::Store::open({.directory = options_.cache_dir, .disabled = options_.no_cache})),
      workers_(std::make_shared<Workers>(options_.threads)) {}

Result<CpuBackend::Binary> CpuBackend::find_or_compile(const cache::Key& key, const std::string& source,
                                                       const std::string& symbol, const std::string& plan_text,
                                                       const Target& target) const {
  const Stopwatch reading;
  if (auto found = store_->get(key); found.entry && found.entry->launch == launch_text(symbol)) {
    return Binary{.entry = std::move(*found.entry), .origin = CacheOrigin::disk, .load_ms = reading.ms()};
  }
  if (options_.no_compile) {
    auto error = environment_error("the kernel is not stored, and compiling is forbidden");
    error.notes.push_back(store_->explain_miss(key));
    return error;
  }
  const Stopwatch compiling;
  WEFT_TRY(const auto library, llvm::Library::open(options_.llvm));
  WEFT_TRY(auto object, llvm::compile(*library, source, target));
  Binary binary;
  binary.compile_ms = compiling.ms();
  binary.entry.binary = std::move(object);
  binary.entry.source = source;
  binary.entry.plan = plan_text;
  binary.entry.launch = launch_text(symbol);
  binary.entry.build_us = static_cast<std::uint64_t>(binary.compile_ms * 1000);
  if (auto put = store_->put(key, binary.entry); put.warning) warn(put.warning->message);
  return binary;
}

Result<CpuBackend::Built> CpuBackend::build(Planned planned) const {
  auto& [front, bind, target, plan] = planned;
  if (std::string why; !host_can_execute(target, &why)) {
    return environment_error(fmt::format("this machine cannot execute {}: {}", target.name, why));
  }
  auto source = codegen::cpu::emit(plan, target);
  WEFT_TRY(const auto key, cpu_kernel_key(source.text, target, options_.llvm));
  auto state = std::make_shared<Kernel::State>();
  state->plan_text = ir::print(plan);
  WEFT_TRY(auto binary, find_or_compile(key, source.text, source.symbol, state->plan_text, target));

  const Stopwatch loading;
  WEFT_TRY(auto object, object::LoadedObject::load(binary.entry.binary, front.pattern.name));
  auto* const entry_point = object->symbol(source.symbol);
  if (entry_point == nullptr) return internal_error(fmt::format("the object has no symbol {}", source.symbol));
  binary.load_ms += loading.ms();

  state->dtype = from_ir(bind.dtype);
  state->branch_lse = bind.branch_lse;
  state->pattern_text = ir::print(front.pattern);
  state->source_text = std::move(source.text);
  state->binary = std::move(binary.entry.binary);
  state->target = target.name;
  state->pattern = std::move(front.pattern);
  state->warnings = std::move(front.warnings);
  state->executor = std::make_unique<CpuExecutor>(std::move(plan), target, std::move(object),
                                                  reinterpret_cast<CpuExecutor::Function>(entry_point), workers_);
  return Built{
      .state = std::move(state), .origin = binary.origin, .compile_ms = binary.compile_ms, .load_ms = binary.load_ms};
}

void CpuBackend::warn(std::string text) const {
  std::lock_guard lock(mutex_);
  for (const auto& known : warnings_) {
    if (known == text) return;
  }
  warnings_.push_back(std::move(text));
}

std::vector<std::string> CpuBackend::take_warnings() const {
  std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

}  // namespace weft
