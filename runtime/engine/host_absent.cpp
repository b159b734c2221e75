#include "runtime/engine/cpu_backend.h"
#include "runtime/engine/cuda_backend.h"
#include "runtime/engine/emulate_executor.h"

/// Stands for what runs kernels on the host in a build with WEFT_CPU off: the CPU backend and the emulator.
namespace weft {

namespace {

Error absent() {
  auto error = environment_error("this build of Weft runs no kernels on the host");
  error.notes.emplace_back("targets it has: cuda, cuda:N, sm_NN, interpreter");
  return error;
}

}  // namespace

CpuBackend::CpuBackend(const EngineOptions&) {}

Result<Built> CpuBackend::build(Prepared, std::shared_ptr<const Binaries>) const { return absent(); }

Result<Built> CudaBackend::emulate(Planned) { return absent(); }

Result<std::vector<emulate::Report>> count_emulated(const Kernel&, const RunArgs&) { return absent(); }

}  // namespace weft
