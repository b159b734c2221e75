#include "runtime/engine/engine_state.h"
#include "runtime/engine/front.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/reference.h"

#include <weft/weft.h>

#include <fmt/format.h>

#include <chrono>

namespace weft {

namespace {

class Interpreter : public Executor {
 public:
  Status run(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const override {
    return run_interpreter(pattern, launch, args);
  }
  Result<std::size_t> workspace(const RunShape&, int) const override { return std::size_t{0}; }
};

std::string spelled(const std::optional<std::int64_t>& value) { return value ? std::to_string(*value) : "-"; }

/// Two requests with the same spelling are the same request: the key in memory, compared in full.
std::string request_key(std::string_view text, const CompileOptions& options) {
  std::string key;
  key.reserve(text.size() + 128);
  for (const auto& part :
       {options.pattern, options.target, spelled(options.heads), spelled(options.kv_heads), spelled(options.dim),
        spelled(options.dim_v), std::string(options.dtype ? to_string(*options.dtype) : "-"),
        std::string(options.branch_lse ? "branches" : "-")}) {
    key.append(part).push_back('\0');
  }
  for (const auto& [name, value] : options.params) {
    key.append(name).push_back('=');
    key.append(value).push_back('\0');
  }
  return key.append(text);
}

std::shared_ptr<const Kernel::State> interpreter_state(Front front, const CompileOptions& options) {
  auto state = std::make_shared<Kernel::State>();
  state->dtype = options.dtype.value_or(DType::f32);
  state->any_float = true;
  state->branch_lse = true;
  state->pattern_text = ir::print(front.pattern);
  state->target = "interpreter";
  state->pattern = std::move(front.pattern);
  state->warnings = std::move(front.warnings);
  state->executor = std::make_unique<Interpreter>();
  return state;
}

}  // namespace

Engine::Engine(EngineOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Engine::~Engine() = default;

Result<Kernel> Engine::compile(std::string_view text, const CompileOptions& options) const {
  const auto key = request_key(text, options);
  if (auto known = state_->kernels.find(key)) return Kernel(std::move(known), CacheOrigin::memory, 0, 0);

  const Source source{.name = options.source_name, .text = std::string(text)};
  WEFT_TRY(const auto target, find_target(options.target));
  WEFT_TRY(auto front, read_pattern(source, options));
  if (target.kind == TargetKind::interpreter) {
    auto state = state_->kernels.keep(key, interpreter_state(std::move(front), options));
    return Kernel(std::move(state), CacheOrigin::miss, 0, 0);
  }
  if (target.kind == TargetKind::cuda) {
    return environment_error("this version has no CUDA backend; targets that run here: cpu, interpreter");
  }
  WEFT_TRY(auto planned, plan_pattern(std::move(front), options, target));
  WEFT_TRY(auto built, state_->cpu.build(std::move(planned)));
  auto state = state_->kernels.keep(key, std::move(built.state));
  return Kernel(std::move(state), built.origin, built.compile_ms, built.load_ms);
}

std::vector<std::string> Engine::take_warnings() const { return state_->cpu.take_warnings(); }

Status Kernel::run(const RunArgs& args) const {
  const LaunchContract contract{.pattern = state_->pattern,
                                .dtype = state_->dtype,
                                .any_float = state_->any_float,
                                .branch_lse = state_->branch_lse};
  WEFT_TRY(const auto launch, check_launch(contract, args));
  return state_->executor->run(state_->pattern, launch, args);
}

Result<std::size_t> Kernel::workspace(const RunShape& shape, int threads) const {
  return state_->executor->workspace(shape, threads);
}

const std::string& Kernel::pattern_text() const { return state_->pattern_text; }
const std::string& Kernel::plan_text() const { return state_->plan_text; }
const std::string& Kernel::source_text() const { return state_->source_text; }
const std::string& Kernel::target() const { return state_->target; }
const std::vector<Diagnostic>& Kernel::warnings() const { return state_->warnings; }

const char* to_string(DType type) {
  switch (type) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
  }
  return "?";
}

std::size_t size_of(DType type) {
  switch (type) {
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f64:
      return 8;
    case DType::u8:
      return 1;
  }
  return 0;
}

const char* to_string(CacheOrigin origin) {
  switch (origin) {
    case CacheOrigin::memory:
      return "memory";
    case CacheOrigin::disk:
      return "disk";
    case CacheOrigin::bundle:
      return "bundle";
    case CacheOrigin::miss:
      return "miss";
  }
  return "?";
}

const char* version() { return WEFT_VERSION; }

}  // namespace weft
