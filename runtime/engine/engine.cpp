#include "compiler/base/guarded.h"
#include "runtime/engine/engine_checks.h"
#include "runtime/engine/engine_state.h"
#include "runtime/engine/front.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/measured.h"
#include "runtime/engine/memo.h"
#include "runtime/engine/reference.h"
#include "runtime/engine/tuned.h"

#include <weft/weft.h>

#include <fmt/format.h>

namespace weft {

namespace {

class Interpreter : public Executor {
 public:
  Status run(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const override {
    return launch.gradient ? interpret_backward(pattern, launch, args) : run_interpreter(pattern, launch, args);
  }
  Result<std::size_t> workspace(const ir::Shape&, int) const override { return std::size_t{0}; }
};

std::string spelled(const std::optional<std::int64_t>& value) { return value ? std::to_string(*value) : "-"; }

/// Two requests with the same spelling are the same request: the key in memory, compared in full.
std::string request_key(std::string_view text, const CompileOptions& options) {
  std::string key;
  key.reserve(text.size() + 128);
  for (const auto& part :
       {options.pattern, options.target, spelled(options.heads), spelled(options.kv_heads), spelled(options.dim),
        spelled(options.dim_v), std::string(options.dtype ? to_string(*options.dtype) : "-"),
        std::string(options.branch_lse ? "branches" : "-"), std::string(options.paged ? "paged" : "-"),
        std::string(options.gradient ? "gradient" : "-")}) {
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
  state->gradient = options.gradient;
  state->pattern_text = ir::print(front.pattern);
  state->target = "interpreter";
  state->pattern = std::move(front.pattern);
  state->warnings = std::move(front.warnings);
  state->executor = std::make_unique<Interpreter>();
  return state;
}

}  // namespace

Result<Prepared> Engine::State::prepare_noted(Front front, const Request& request) const {
  const auto& [key, source, options, destination] = request;
  take_tuned(binaries->stores(), front.pattern, options, destination.target);
  const Target target = as_measured(binaries->stores(), destination.target, front.pattern.dtype);
  const auto bind = bind_of(front.pattern, options);
  std::optional<cache::Key> memo;
  if (bind && binaries->has_stores()) memo = memo_key(key, front.pattern, target, build_id);
  if (memo) {
    if (auto known = find_memo(binaries->stores(), *memo, front, *bind, target)) return std::move(*known);
  }
  WEFT_TRY(auto planned, plan_pattern(std::move(front), options, target));
  auto kernel = prepare(std::move(planned));
  kernel.memo = std::move(memo);
  return kernel;
}

Result<Prepared> Engine::State::prepare_best(Front front, const Request& request) const {
  // Kernels of bundles were planned where nobody knows this machine, and notes tell nothing about them.
  if (binaries->bundles().empty()) return prepare_noted(std::move(front), request);
  const auto& [key, source, options, destination] = request;
  WEFT_TRY(auto planned, plan_pattern(front, options, destination.target));
  auto best = prepare(std::move(planned));
  if (binaries->has(best)) return best;
  for (const auto& target : substitutes_for(options.target, destination)) {
    if (!binaries->bundles().has_target(target.name)) continue;
    auto lesser = plan_pattern(front, options, target);
    if (!lesser) continue;  // it has what the other target lacks
    auto prepared = prepare(std::move(*lesser));
    if (binaries->bundles().has(prepared)) return prepared;
  }
  return best;
}

Result<Built> Engine::State::emulate(Front front, const CompileOptions& options, const Target& target) const {
  const Stopwatch planning;
  WEFT_TRY(auto planned, plan_pattern(std::move(front), options, target));
  const double plan_ms = planning.ms();
  WEFT_TRY(auto built, CudaBackend::emulate(std::move(planned)));
  built.times.plan_ms = plan_ms;
  return built;
}

Result<Built> Engine::State::build(Front front, const Request& request) const {
  const auto& [key, source, options, destination] = request;
  if (destination.kind == Destination::Kind::emulate) return emulate(std::move(front), options, destination.target);
  const Stopwatch planning;
  WEFT_TRY(auto prepared, prepare_best(std::move(front), request));
  const double plan_ms = planning.ms() - prepared.emit_ms;
  if (no_compile) prepared.command = build_command(options, prepared.planned, binaries->bundles().file());
  const auto line = record.wanted() ? record_line(source.text, options, prepared.planned) : std::string();
  WEFT_TRY(auto built, destination.kind == Destination::Kind::cuda
                           ? CudaBackend::build(std::move(prepared), destination, *binaries)
                           : cpu.build(std::move(prepared), binaries));
  built.times.plan_ms = plan_ms;
  if (record.wanted()) {
    if (auto added = record.add(line); !added) binaries->warn(added.error().message);
  }
  return built;
}

Result<Built> Engine::State::find_or_build(const std::string& key, std::string_view text,
                                           const CompileOptions& options) const {
  const Source source{.name = options.source_name, .text = std::string(text)};
  WEFT_TRY(const auto destination, find_destination(options.target));
  WEFT_TRY(auto front, read_pattern(source, options));
  WEFT_CHECK(check_gradient(options, destination));
  if (destination.kind == Destination::Kind::interpreter) {
    return Built{.state = interpreter_state(std::move(front), options)};
  }
  return build(std::move(front), {key, source, options, destination});
}

Result<Kernel> Engine::State::compile(std::string_view text, const CompileOptions& options) {
  const auto key = request_key(text, options);
  auto known = kernels.find(key);
  if (!known) {
    const auto landed = flights.join(key, [&]() -> Result<Built> {
      // Another's flight may have landed since we looked.
      if (auto here = kernels.find(key)) return Built{.state = std::move(here), .origin = CacheOrigin::memory};
      auto built = find_or_build(key, text, options);
      if (built) kernels.keep(key, built->state);
      return built;
    });
    if (!*landed.value) return landed.value->error();
    const Built& built = **landed.value;
    if (!landed.joined && built.origin != CacheOrigin::memory) return Kernel(built.state, built.origin, built.times);
    known = built.state;
  }
  binaries->count_memory_hit();
  return Kernel(std::move(known), CacheOrigin::memory, {});
}

Engine::Engine(EngineOptions options) {
  auto made = guarded([&]() -> Result<std::unique_ptr<State>> {
    WEFT_CHECK(check_options(options));
    return std::make_unique<State>(options);
  });
  if (made)
    state_ = std::move(*made);
  else
    failure_ = std::move(made).error();
}
Engine::~Engine() = default;

Status Engine::ready() const {
  return guarded([&]() -> Status {
    if (state_ == nullptr) return failure_;
    return done;
  });
}

Result<Kernel> Engine::compile(std::string_view text, const CompileOptions& options) const {
  return guarded([&]() -> Result<Kernel> {
    if (state_ == nullptr) return failure_;
    return state_->compile(text, options);
  });
}

std::vector<std::string> Engine::take_warnings() const {
  return state_ == nullptr ? std::vector<std::string>() : state_->binaries->take_warnings();
}

CacheStats Engine::cache_stats() const {
  const auto stats =
      guarded([&]() -> Result<CacheStats> { return state_ == nullptr ? CacheStats() : state_->binaries->stats(); });
  return stats ? *stats : CacheStats();
}

const char* version() { return WEFT_VERSION; }

}  // namespace weft
