#include "compiler/base/guarded.h"
#include "runtime/engine/backends.h"
#include "runtime/engine/engine_checks.h"
#include "runtime/engine/engine_state.h"
#include "runtime/engine/front.h"
#include "runtime/engine/measured.h"
#include "runtime/engine/memo.h"
#include "runtime/engine/texts.h"
#include "runtime/engine/tuned.h"

#include <weft/weft.h>

#include <fmt/format.h>

namespace weft {

namespace {

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

}  // namespace

/// Its first text, too: what stores are asked by.
Result<Engine::State::Made> Engine::State::named(Planned planned, const CompileOptions& options,
                                                 std::optional<cache::Key> memo, std::optional<Binary> known) const {
  auto kernel = std::make_shared<Kernel::State>(std::move(planned));
  kernel->memo = std::move(memo);
  WEFT_TRY(kernel->texts, first_texts(*kernel, options));
  const auto first = kernel->texts.front();
  kernel->binary = known && known->regime == first ? std::move(*known) : binaries->name_of(*kernel, first);
  return kernel;
}

Result<Engine::State::Made> Engine::State::plan_and_name(Front front, const CompileOptions& options,
                                                         const Target& target, std::optional<cache::Key> memo) const {
  WEFT_TRY(auto planned, plan_pattern(std::move(front), options, target));
  return named(std::move(planned), options, std::move(memo));
}

Result<Engine::State::Made> Engine::State::plan_noted(Front front, const Request& request) const {
  const auto& [key, text, options, destination] = request;
  take_tuned(binaries->stores(), front.pattern, options, destination.target);
  const Target target = as_measured(binaries->stores(), destination.target, front.pattern.dtype);
  const auto bind = bind_of(front.pattern, options);
  std::optional<cache::Key> memo;
  if (bind && binaries->has_stores()) memo = memo_key(key, front.pattern, target, build_id);
  if (memo) {
    if (auto known = find_memo(binaries->stores(), *memo, *bind)) {
      return named({std::move(front), *bind, target, std::move(known->plan)}, options, std::move(memo),
                   std::move(known->binary));
    }
  }
  return plan_and_name(std::move(front), options, target, std::move(memo));
}

Result<Engine::State::Made> Engine::State::plan_best(Front front, const Request& request) const {
  const auto& [key, text, options, destination] = request;
  if (destination.kind == Destination::Kind::interpreter) {  // it takes what plans do not
    const ir::Bind bind{.branch_lse = true, .gradient = options.gradient};
    return std::make_shared<Kernel::State>(Planned{std::move(front), bind, destination.target, {}});
  }
  if (destination.kind == Destination::Kind::emulate)
    return plan_and_name(std::move(front), options, destination.target);
  // Kernels of bundles were planned where nobody knows this machine, and notes tell nothing about them.
  if (binaries->bundles().empty()) return plan_noted(std::move(front), request);
  WEFT_TRY(auto best, plan_and_name(front, options, destination.target));
  if (binaries->has(best->target, best->binary)) return best;
  for (const auto& target : substitutes_for(options.target, destination)) {
    if (!binaries->bundles().has_target(target.name)) continue;
    auto lesser = plan_and_name(front, options, target);
    if (!lesser) continue;  // it has what the other target lacks
    if (binaries->bundles().has((*lesser)->binary)) return lesser;
  }
  return best;
}

Status Engine::State::load(Kernel::State& kernel, const Request& request) const {
  const Backend& backend = backend_of(request.destination.kind);
  const bool stored = backend.build != nullptr;
  if (stored && no_compile) kernel.command = build_command(request.options, kernel, binaries->bundles().file());
  WEFT_CHECK(backend.load(kernel, {request.destination, binaries, workers}));
  if (!stored || !record.wanted()) return done;
  if (auto added = record.add(record_line(request.text, request.options, kernel)); !added) {
    binaries->warn(added.error().message);
  }
  return done;
}

Result<Engine::State::Made> Engine::State::find_or_build(const std::string& key, std::string_view text,
                                                         const CompileOptions& options) const {
  WEFT_TRY(const auto destination, find_destination(options.target));
  WEFT_TRY(auto front, read_pattern({.name = options.source_name, .text = std::string(text)}, options));
  WEFT_CHECK(check_gradient(options));
  const Request request{key, text, options, destination};
  const Stopwatch planning;
  WEFT_TRY(auto kernel, plan_best(std::move(front), request));
  kernel->binary.times.plan_ms = planning.ms() - kernel->binary.times.emit_ms;
  WEFT_CHECK(load(*kernel, request));
  return kernel;
}

Result<Kernel> Engine::State::compile(std::string_view text, const CompileOptions& options) {
  const auto key = request_key(text, options);
  auto known = kernels.find(key);
  if (!known) {
    bool is_new = false;
    const auto landed = flights.join(key, [&]() -> Result<KernelMap::Kept> {
      // Another's flight may have landed since we looked.
      if (auto here = kernels.find(key)) return here;
      WEFT_TRY(KernelMap::Kept built, find_or_build(key, text, options));
      kernels.keep(key, built);
      is_new = true;
      return built;
    });
    if (!*landed.value) return landed.value->error();
    known = **landed.value;
    if (is_new) return Kernel(known, known->binary.origin, known->binary.times);
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
