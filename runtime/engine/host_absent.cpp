#include "runtime/engine/backends.h"
#include "runtime/engine/emulate_executor.h"

/// Stands for what runs kernels on the host in a build with WEFT_CPU off: CPU kernels and the emulator.
namespace weft {

namespace {

Error absent() {
  auto error = environment_error("this build of Weft runs no kernels on the host");
  error.notes.emplace_back("targets it has: cuda, cuda:N, sm_NN, interpreter");
  return error;
}

}  // namespace

Status load_cpu(Kernel::State&, const Loading&) { return absent(); }

Status load_emulated(Kernel::State&, const Loading&) { return absent(); }

Result<std::vector<emulate::Report>> count_emulated(const Kernel&, const RunArgs&) { return absent(); }

}  // namespace weft
