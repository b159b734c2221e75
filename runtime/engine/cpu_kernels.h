#pragma once

#include "codegen/cpu/micro_kernels.h"
#include "compiler/ir/few_rows.h"
#include "runtime/engine/binaries.h"
#include "runtime/engine/compilation.h"
#include "runtime/engine/first_use.h"
#include "runtime/object/loaded_object.h"

#include <weft/weft.h>

#include <memory>

namespace weft {

/// The micro-kernels of one CPU kernel: those of many queries from the beginning, those of few queries found or
/// compiled when a launch first needs them. Thread-safe.
class CpuKernels {
 public:
  /// Finds `first`, the kernel's binary of many queries, and loads it. The kernel outlives what is made.
  static Result<std::unique_ptr<const CpuKernels>> make(const Compilation& kernel, Binary& first,
                                                        std::shared_ptr<const Binaries> binaries);

  const codegen::cpu::MicroKernels& many() const { return many_.kernels; }
  /// All that launches of the regime call. Where they had to be made, `times` grows by what that took; errors are those
  /// of Engine::compile, and the next launch tries again.
  Result<const codegen::cpu::MicroKernels*> of(ir::Regime regime, BuildTimes* times = nullptr) const;

 private:
  struct Loaded {
    std::shared_ptr<const object::LoadedObject> object;
    codegen::cpu::MicroKernels kernels;  ///< the object's own, over others
  };
  CpuKernels(const Compilation& kernel, std::shared_ptr<const Binaries> binaries)
      : kernel_(kernel), binaries_(std::move(binaries)) {}
  /// Over what `into` has.
  Result<Binary> load(const Binary& wanted, Loaded& into) const;
  Result<Loaded> make_few(BuildTimes* times) const;

  const Compilation& kernel_;
  std::shared_ptr<const Binaries> binaries_;
  Loaded many_;
  FirstUse<Loaded> few_;
};

}  // namespace weft
