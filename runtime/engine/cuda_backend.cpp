#include "runtime/engine/cuda_backend.h"

#include "runtime/cuda/examine.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/cuda_executor.h"

#include <fmt/format.h>

namespace weft {

namespace {

/// A kernel that was compiled for another machine's GPU.
class Elsewhere : public GpuExecutor {
 public:
  Elsewhere(ir::Plan plan, Error why) : GpuExecutor(std::move(plan)), why_(std::move(why)) {}
  Status run(const ir::Pattern&, const Launch&, const RunArgs&) const override { return why_; }
  Result<std::size_t> workspace(const ir::Shape&, int) const override { return why_; }
  Result<BuildTimes> prepare(const ir::Shape&) const override { return why_; }
  bool reads_host_memory() const override { return false; }

 private:
  Error why_;
};

/// The GPU to run on: the one that was named, else the first that executes the target's binaries.
Result<std::shared_ptr<const cuda::Device>> device_for(const Destination& destination) {
  auto driver = cuda::Driver::open();
  if (destination.device && driver) return cuda::Device::open(std::move(*driver), *destination.device);
  auto none = environment_error(fmt::format("no GPU of this machine executes {}", destination.target.name));
  if (driver) {
    for (const auto& info : (*driver)->devices()) {
      if (device_can_execute(destination.target, info.sm)) return cuda::Device::open(std::move(*driver), info.number);
      none.notes.push_back(cuda::describe(info));
    }
  } else {
    none.notes.push_back(driver.error().message);
  }
  none.notes.push_back(fmt::format("--target emulate:{} runs the same text on the host", destination.target.name));
  return none;
}

}  // namespace

Result<Built> CudaBackend::build(Prepared prepared, const Destination& destination, const Binaries& binaries) {
  auto& [front, bind, target, plan] = prepared.planned;
  const auto& names = prepared.names;
  auto device = device_for(destination);
  if (!device && destination.device) return std::move(device).error();
  CudaExecutor::Modules modules;
  bool refused = false;
  const auto load = [&](const cache::Entry& entry) -> Status {
    modules = {};
    if (!cuda::is_cubin(entry.binary)) return internal_error("the kernel is no cubin");
    if (!device) return done;
    WEFT_TRY(modules.attend, cuda::Module::load(*device, entry.binary, names.symbol, front.pattern.name, &refused));
    if (!names.prepass.empty()) {
      WEFT_TRY(modules.prepass, modules.attend->sibling(names.prepass));
    }
    if (!names.merge.empty()) {
      WEFT_TRY(modules.merge, modules.attend->sibling(names.merge));
    }
    return done;
  };
  auto compiler = binaries.compilers().identity(target);
  auto binary = binaries.find_and_load(prepared, load);
  // A driver that is older than what compiled: perhaps it takes what another release of CUDA makes.
  while (!binary && refused && compiler && binaries.compilers().pass_over(target, *compiler)) {
    binaries.warn("another NVRTC is used, as the driver does not take a kernel: " + binary.error().message);
    refused = false;
    compiler = binaries.compilers().identity(target);
    binary = binaries.find_and_load(prepared, load);
  }
  if (!binary) return std::move(binary).error();
  std::unique_ptr<const Executor> executor;
  if (device)
    executor = std::make_unique<CudaExecutor>(std::move(plan), target, std::move(modules));
  else
    executor = std::make_unique<Elsewhere>(std::move(plan), std::move(device).error());

  auto state = make_state(std::move(front), bind, target.name, std::move(prepared.texts));
  state->binary = std::move(binary->entry.binary);
  state->origin_path = binary->place;
  state->registers = binary->entry.registers;
  state->spill_bytes = binary->entry.spill_bytes;
  state->executor = std::move(executor);
  return built(std::move(state), *binary, prepared.emit_ms);
}

}  // namespace weft
