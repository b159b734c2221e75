#include "runtime/engine/destination.h"
#include "runtime/engine/engine_state.h"
#include "runtime/engine/front.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/reference.h"

#include <weft/weft.h>

#include <fmt/format.h>

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
        std::string(options.branch_lse ? "branches" : "-"), std::string(options.paged ? "paged" : "-")}) {
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

Result<Built> Engine::State::build(Planned planned, const Destination& destination) const {
  switch (destination.kind) {
    case Destination::Kind::cuda:
      return cuda.build(std::move(planned), destination, binaries);
    case Destination::Kind::emulate:
      return CudaBackend::emulate(std::move(planned));
    case Destination::Kind::cpu:
    case Destination::Kind::interpreter:
      break;
  }
  return cpu.build(std::move(planned), binaries);
}

Engine::Engine(EngineOptions options) : state_(std::make_unique<State>(options)) {}
Engine::~Engine() = default;

Result<Kernel> Engine::compile(std::string_view text, const CompileOptions& options) const {
  const auto key = request_key(text, options);
  if (auto known = state_->kernels.find(key)) return Kernel(std::move(known), CacheOrigin::memory, {});

  const Source source{.name = options.source_name, .text = std::string(text)};
  WEFT_TRY(const auto destination, find_destination(options.target));
  WEFT_TRY(auto front, read_pattern(source, options));
  if (destination.kind == Destination::Kind::interpreter) {
    auto state = state_->kernels.keep(key, interpreter_state(std::move(front), options));
    return Kernel(std::move(state), CacheOrigin::miss, {});
  }
  const Stopwatch planning;
  WEFT_TRY(auto planned, plan_pattern(std::move(front), options, destination.target));
  const double plan_ms = planning.ms();
  WEFT_TRY(auto built, state_->build(std::move(planned), destination));
  auto state = state_->kernels.keep(key, std::move(built.state));
  built.times.plan_ms = plan_ms;
  return Kernel(std::move(state), built.origin, built.times);
}

std::vector<std::string> Engine::take_warnings() const { return state_->binaries.take_warnings(); }

const char* version() { return WEFT_VERSION; }

}  // namespace weft
