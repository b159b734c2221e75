#include "runtime/engine/compilation.h"

#include "codegen/args.h"
#include "runtime/engine/backends.h"
#include "runtime/engine/stopwatch.h"

#include <fmt/format.h>

#include <mutex>

namespace weft {

Compilation::Compilation(Planned planned)
    : Planned(std::move(planned)), backend(backend_of(target)), steps(ir::steps_of(plan)) {
  if (backend.launch != nullptr) launch = backend.launch(plan);
}

const std::string& Compilation::pattern_text() const {
  const std::lock_guard lock(mutex_);
  if (!pattern_text_) pattern_text_ = ir::print(pattern);
  return *pattern_text_;
}

const std::string& Compilation::plan_text() const {
  const std::lock_guard lock(mutex_);
  if (!plan_text_) plan_text_ = backend.emit != nullptr ? ir::print(plan) : std::string();
  return *plan_text_;
}

const codegen::Source& Compilation::source(ir::Regime regime) const {
  const std::lock_guard lock(mutex_);
  const auto known = sources_.find(regime);
  if (known != sources_.end()) return known->second;
  auto made = backend.emit != nullptr ? backend.emit(plan, target, regime) : codegen::Source();
  return sources_.emplace(regime, std::move(made)).first->second;
}

Result<std::shared_ptr<const HeadTables>> Compilation::tables(std::int64_t heads, ir::Regime regime) const {
  const auto own = ir::tables_of(plan, regime);
  return tables_[static_cast<std::size_t>(own)].get(heads,
                                                    [&] { return make_head_tables(ir::plan_of(plan, own), heads); });
}

bool Compilation::emitted(ir::Regime regime) const {
  const std::lock_guard lock(mutex_);
  return sources_.contains(regime);
}

Binary binary_of(const Compilation& kernel, ir::Regime regime) {
  const Stopwatch emitting;
  const Target& target = kernel.target;
  Binary out{.regime = regime};
  out.request.add("backend", kernel.backend.name).add("abi", std::to_string(kWeftArgsAbi)).add("target", target.name);
  if (target.kind == TargetKind::cpu) out.request.add("cpu", target.llvm_cpu).add("features", target.llvm_features);
  out.request.add("options", kernel.backend.options())
      .add("regime", ir::to_string(regime))
      .add("launch", kernel.launch)
      .add_digest_of("source", kernel.source(regime).text);
  out.times.emit_ms = emitting.ms();
  return out;
}

std::string variant_of(const ir::Bind& bind, ir::Regime regime) {
  auto out = fmt::format("{}, dim {}", ir::to_string(bind.dtype), bind.d);
  if (bind.d_v != bind.d) out += fmt::format(", value dim {}", bind.d_v);
  if (bind.branch_lse) out += ", branch lse";
  if (bind.paged) out += ", paged";
  if (bind.gradient) out += ", gradient";
  if (regime != ir::Regime::many_queries) out += fmt::format(", {}", ir::to_string(regime));
  return out;
}

}  // namespace weft
