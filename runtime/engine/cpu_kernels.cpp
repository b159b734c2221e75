#include "runtime/engine/cpu_kernels.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

namespace weft {

namespace {

/// What fills in the micro-kernels: the object's symbol.
using Describe = void (*)(codegen::cpu::MicroKernels*);

}  // namespace

Result<Binary> CpuKernels::load(const Binary& wanted, Loaded& into) const {
  Describe describe = nullptr;
  WEFT_TRY(auto binary, binaries_->find_and_load(kernel_, wanted, [&](const cache::Entry& entry) -> Status {
    WEFT_TRY(into.object, object::LoadedObject::load(entry.binary, kernel_.pattern.name));
    describe = reinterpret_cast<Describe>(into.object->symbol(kernel_.names.symbol));
    if (describe != nullptr) return done;
    return internal_error(fmt::format("the object has no symbol {}", kernel_.names.symbol));
  }));
  describe(&into.kernels);
  return binary;
}

Result<std::unique_ptr<const CpuKernels>> CpuKernels::make(const Compilation& kernel, Binary& first,
                                                           std::shared_ptr<const Binaries> binaries) {
  std::unique_ptr<CpuKernels> kernels(new CpuKernels(kernel, std::move(binaries)));
  WEFT_TRY(first, kernels->load(first, kernels->many_));
  return std::unique_ptr<const CpuKernels>(std::move(kernels));
}

Result<CpuKernels::Loaded> CpuKernels::make_few(BuildTimes* times) const {
  Loaded loaded{.object = nullptr, .kernels = many_.kernels};
  WEFT_TRY(const auto few, load(binary_of(kernel_, ir::Regime::few_queries), loaded));
  if (times != nullptr) {
    times->emit_ms += few.times.emit_ms;
    times->compile_ms += few.times.compile_ms;
    times->load_ms += few.times.load_ms;
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
