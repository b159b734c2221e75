#pragma once

#include "codegen/cpu/micro_kernels.h"
#include "compiler/ir/few_rows.h"
#include "runtime/engine/binaries.h"
#include "runtime/engine/prepared.h"
#include "runtime/object/loaded_object.h"

#include <weft/weft.h>

#include <atomic>
#include <memory>
#include <optional>

namespace weft {

/// The micro-kernels of one CPU kernel: those of many queries from the beginning, those of few queries found or
/// compiled when a launch first needs them. Thread-safe.
class CpuKernels {
 public:
  struct Made;
  static Result<Made> make(const Prepared& prepared, std::shared_ptr<const Binaries> binaries);

  const codegen::cpu::MicroKernels& many() const { return many_.kernels; }
  /// All that launches of the regime call. Where they had to be made, `times` grows by what that took; errors are those
  /// of Engine::compile, and the next launch tries again.
  Result<const codegen::cpu::MicroKernels*> of(ir::Regime regime, BuildTimes* times = nullptr) const;

 private:
  struct Loaded {
    std::shared_ptr<const object::LoadedObject> object;
    codegen::cpu::MicroKernels kernels;  ///< the object's own, over others
  };
  static Result<Binaries::Found> load(const Prepared& prepared, const Binaries& binaries, Loaded& into);
  Result<Loaded> make_few(BuildTimes* times) const;

  Loaded many_;
  std::optional<Prepared> to_make_;  ///< empty where there is one regime only
  std::shared_ptr<const Binaries> binaries_;
  mutable ForkSafe<> mutex_;
  mutable std::unique_ptr<const Loaded> few_;
  mutable std::atomic<const codegen::cpu::MicroKernels*> few_kernels_{nullptr};
};

struct CpuKernels::Made {
  std::unique_ptr<const CpuKernels> kernels;
  Binaries::Found binary;  ///< of many queries
};

}  // namespace weft
