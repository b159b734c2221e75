#include "runtime/engine/cpu_kernels.h"

#include "runtime/engine/backends.h"

#include <fmt/format.h>

#include <utility>

namespace weft {

namespace {

/// What fills in the micro-kernels: the object's symbol.
using Describe = void (*)(codegen::cpu::MicroKernels*);

}  // namespace

Result<Binary> CpuKernels::load(const Binary& wanted, Loaded& into) const {
  Describe describe = nullptr;
  const auto symbol = kernel_.backend.names(kernel_.plan, wanted.regime).symbol;
  WEFT_TRY(auto binary, binaries_->find_and_load(kernel_, wanted, [&](const cache::Entry& entry) -> Status {
    WEFT_TRY(into.object, object::LoadedObject::load(entry.binary, kernel_.pattern.name));
    describe = reinterpret_cast<Describe>(into.object->symbol(symbol));
    if (describe != nullptr) return done;
    return internal_error(fmt::format("the object has no symbol {}", symbol));
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
  WEFT_TRY(const auto few, load(binaries_->name_of(kernel_, ir::Regime::few_queries), loaded));
  if (times != nullptr) *times += few.times;
  return loaded;
}

Result<const codegen::cpu::MicroKernels*> CpuKernels::of(ir::Regime regime, BuildTimes* times) const {
  if (regime == ir::Regime::many_queries) return &many_.kernels;
  WEFT_TRY(const auto* const few, few_.get([&] { return make_few(times); }));
  return &few->kernels;
}

}  // namespace weft
