#pragma once

#include "codegen/source.h"
#include "runtime/emulate/program.h"
#include "runtime/engine/gpu_executor.h"

#include <memory>
#include <string>
#include <vector>

namespace weft {

/// Runs the emitted CUDA text on the host, on host tensors. Whatever the emulator finds wrong is a defect of Weft.
class EmulateExecutor : public GpuExecutor {
 public:
  static Result<std::unique_ptr<const EmulateExecutor>> make(const Compilation& kernel, codegen::Source source);

  Status run(const Launch& launch, const RunArgs& args) const override;
  Result<std::size_t> workspace(const ir::Shape& shape, int threads) const override;

  /// The same with every access counted, which is several times slower. One report per phase.
  Result<std::vector<emulate::Report>> run_counted(const Launch& launch, const RunArgs& args) const;

 private:
  EmulateExecutor(const Compilation& kernel, codegen::Source source, std::shared_ptr<const emulate::Program> program);
  Result<std::vector<emulate::Report>> run_on(const emulate::Program& program, const Launch& launch,
                                              const RunArgs& args) const;

  codegen::Source source_;
  std::shared_ptr<const emulate::Program> program_;
};

/// run_counted() of a kernel whose target is `emulate:…`, after all checks of Kernel::run. User error for others.
Result<std::vector<emulate::Report>> count_emulated(const Kernel& kernel, const RunArgs& args);

}  // namespace weft
