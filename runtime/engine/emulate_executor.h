#pragma once

#include "codegen/source.h"
#include "runtime/emulate/program.h"
#include "runtime/engine/first_use.h"
#include "runtime/engine/gpu_executor.h"
#include "runtime/engine/workers.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weft {

/// Runs the emitted CUDA text on the host, on host tensors. Whatever the emulator finds wrong is a defect of Weft.
class EmulateExecutor : public GpuExecutor {
 public:
  static Result<std::unique_ptr<const EmulateExecutor>> make(const Compilation& kernel,
                                                             const std::vector<ir::Regime>& texts,
                                                             std::shared_ptr<const Workers> workers, BuildTimes& times);
  /// Of this text in the place of the one that every launch needs, in a plan that has no others beside it.
  static Result<std::unique_ptr<const EmulateExecutor>> make(const Compilation& kernel, const codegen::Source& source);

  Status run(const Launch& launch, const RunArgs& args) const override;
  Result<std::size_t> workspace(const ir::Shape& shape, int threads) const override;
  Result<BuildTimes> prepare(const ir::Shape& shape, bool sizes_at) const override;

  /// The same with every access counted, which is several times slower. One report per phase.
  Result<std::vector<emulate::Report>> run_counted(const Launch& launch, const RunArgs& args) const;

 private:
  using Program = std::shared_ptr<const emulate::Program>;
  using Load = std::function<Result<Program>(ir::Regime)>;
  using GpuExecutor::GpuExecutor;
  Result<std::vector<emulate::Report>> run_on(const Load& load, const Launch& launch, const RunArgs& args) const;
  /// Made when it is first asked for.
  Result<Program> load(ir::Regime regime) const;
  Status load_all(const std::vector<ir::Regime>& texts, BuildTimes* times) const;

  std::shared_ptr<const Workers> workers_;
  std::array<FirstUse<Program>, ir::kRegimes> programs_;
};

/// run_counted() of a kernel whose target is `emulate:…`, after all checks of Kernel::run. User error for others.
Result<std::vector<emulate::Report>> count_emulated(const Kernel& kernel, const RunArgs& args);

}  // namespace weft
