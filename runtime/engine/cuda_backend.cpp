#include "runtime/cuda/examine.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/backends.h"
#include "runtime/engine/cuda_executor.h"

#include <fmt/format.h>

#include <functional>

namespace weft {

namespace {

/// A kernel that was compiled for another machine's GPU.
class Elsewhere : public GpuExecutor {
 public:
  Elsewhere(const Compilation& kernel, Error why) : GpuExecutor(kernel), why_(std::move(why)) {}
  Status run(const Launch&, const RunArgs&) const override { return why_; }
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

/// find_and_load(), by another NVRTC where the driver does not take what one made: the driver is older than that one.
/// `load` says through `refused` whether it was so.
Result<Binary> find_and_load(const Compilation& kernel, const Binaries& binaries, const std::function<Binary()>& wanted,
                             const cache::Judge& load, bool& refused) {
  const Compilers& compilers = binaries.compilers();
  while (true) {
    refused = false;
    const auto compiler = compilers.identity(kernel.target);
    auto binary = binaries.find_and_load(kernel, wanted(), load);
    if (binary || !refused || !compiler || !compilers.pass_over(kernel.target, *compiler)) return binary;
    binaries.warn("another NVRTC is used, as the driver does not take a kernel: " + binary.error().message);
  }
}

/// The kernels of a plan that stands beside the first. Without a device they are compiled, and not loaded.
Status load_beside(const Compilation& kernel, ir::Regime regime, const Binaries& binaries,
                   const std::shared_ptr<const cuda::Device>& device, CudaExecutor::Modules& modules,
                   BuildTimes& times) {
  const auto names = kernel.backend.names(ir::plan_of(kernel.plan, regime));
  const auto at = [&](ir::Step::Kernel number) -> auto& { return modules[static_cast<std::size_t>(number)]; };
  bool refused = false;
  const auto load = [&](const cache::Entry& entry) -> Status {
    WEFT_CHECK(kernel.backend.check(entry));
    if (!device) return done;
    auto& first = at(regime == ir::Regime::transposed ? ir::Step::Kernel::transposed : ir::Step::Kernel::inputs);
    WEFT_TRY(first, cuda::Module::load(device, entry.binary, names.symbol, kernel.pattern.name, &refused));
    if (names.input_tables.empty()) return done;
    WEFT_TRY(at(ir::Step::Kernel::input_tables), first->sibling(names.input_tables));
    return done;
  };
  const auto wanted = [&] { return binary_of(kernel, regime); };
  WEFT_TRY(const auto further, find_and_load(kernel, binaries, wanted, load, refused));
  times += further.times;
  return done;
}

}  // namespace

Status load_cuda(Kernel::State& kernel, const Loading& with) {
  const auto& names = kernel.names;
  auto device = device_for(with.destination);
  if (!device && with.destination.device) return std::move(device).error();
  CudaExecutor::Modules modules;
  bool refused = false;
  const auto load = [&](const cache::Entry& entry) -> Status {
    modules = {};
    WEFT_CHECK(kernel.backend.check(entry));
    if (!device) return done;
    const auto at = [&](ir::Step::Kernel number) { return &modules[static_cast<std::size_t>(number)]; };
    auto& attend = *at(ir::Step::Kernel::attend);
    WEFT_TRY(attend, cuda::Module::load(*device, entry.binary, names.symbol, kernel.pattern.name, &refused));
    for (const auto& [name, further] :
         {std::pair(&names.prepass, at(ir::Step::Kernel::prepass)),
          std::pair(&names.merge, at(ir::Step::Kernel::merge)), std::pair(&names.sizes, at(ir::Step::Kernel::sizes)),
          std::pair(&names.terms, at(ir::Step::Kernel::terms))}) {
      if (name->empty()) continue;
      WEFT_TRY(*further, attend->sibling(*name));
    }
    return done;
  };
  auto binary = find_and_load(
      kernel, *with.binaries, [&] { return kernel.binary; }, load, refused);
  if (!binary) return std::move(binary).error();
  kernel.binary = std::move(*binary);
  for (const auto regime : ir::regimes_of(kernel.plan)) {
    if (&ir::plan_of(kernel.plan, regime) == &kernel.plan) continue;
    // Nobody may ever want gradients of inputs. What is compiled for another machine is compiled whole.
    if (device && regime == ir::Regime::inputs) continue;
    WEFT_CHECK(load_beside(kernel, regime, *with.binaries, device ? *device : nullptr, modules, kernel.binary.times));
  }
  if (!device) {
    kernel.executor = std::make_unique<Elsewhere>(kernel, std::move(device).error());
    return done;
  }
  const auto load_inputs = [&kernel, binaries = with.binaries,
                            on = *device](BuildTimes& times) -> Result<CudaExecutor::Modules> {
    CudaExecutor::Modules of_inputs;
    WEFT_CHECK(load_beside(kernel, ir::Regime::inputs, *binaries, on, of_inputs, times));
    return of_inputs;
  };
  kernel.executor = std::make_unique<CudaExecutor>(kernel, std::move(modules), load_inputs);
  return done;
}

}  // namespace weft
