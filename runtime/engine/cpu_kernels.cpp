#include "runtime/engine/cpu_kernels.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

namespace weft {

namespace {

/// What fills in the micro-kernels: the object's symbol.
using Describe = void (*)(codegen::cpu::MicroKernels*);

}  // namespace

Result<Binaries::Found> CpuKernels::load(const Prepared& prepared, const Binaries& binaries, Loaded& into) {
  const auto& name = prepared.planned.front.pattern.name;
  Describe describe = nullptr;
  WEFT_TRY(auto found, binaries.find_and_load(prepared, [&](const cache::Entry& entry) -> Status {
    WEFT_TRY(into.object, object::LoadedObject::load(entry.binary, name));
    describe = reinterpret_cast<Describe>(into.object->symbol(prepared.names.symbol));
    if (describe != nullptr) return done;
    return internal_error(fmt::format("the object has no symbol {}", prepared.names.symbol));
  }));
  describe(&into.kernels);
  return found;
}

Result<CpuKernels::Made> CpuKernels::make(const Prepared& prepared, std::shared_ptr<const Binaries> binaries) {
  auto kernels = std::make_unique<CpuKernels>();
  WEFT_TRY(auto binary, load(prepared, *binaries, kernels->many_));
  if (ir::regimes_of(prepared.planned.plan).size() > 1) kernels->to_make_ = prepared;
  kernels->binaries_ = std::move(binaries);
  return Made{.kernels = std::move(kernels), .binary = std::move(binary)};
}

Result<CpuKernels::Loaded> CpuKernels::make_few(BuildTimes* times) const {
  const auto few = of_regime(*to_make_, ir::Regime::few_queries);
  Loaded loaded{.object = nullptr, .kernels = many_.kernels};
  WEFT_TRY(const auto found, load(few, *binaries_, loaded));
  if (times != nullptr) {
    times->emit_ms += few.emit_ms;
    times->compile_ms += found.compile_ms;
    times->load_ms += found.load_ms;
  }
  return loaded;
}

Result<const codegen::cpu::MicroKernels*> CpuKernels::of(ir::Regime regime, BuildTimes* times) const {
  if (regime == ir::Regime::many_queries) return &many_.kernels;
  if (const auto* known = few_kernels_.load(std::memory_order_acquire)) return known;
  // Not while the mutex is held: it may take long. Threads that want the same make it once (Binaries).
  WEFT_TRY(auto made, make_few(times));
  const std::lock_guard lock(mutex_);
  if (!few_) {
    few_ = std::make_unique<const Loaded>(std::move(made));
    few_kernels_.store(&few_->kernels, std::memory_order_release);
  }
  return &few_->kernels;
}

}  // namespace weft
