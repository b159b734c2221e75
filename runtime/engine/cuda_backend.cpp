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
  Result<BuildTimes> prepare(const ir::Shape&, bool) const override { return why_; }
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

struct Loaded {
  CudaExecutor::Modules modules;
  Binary binary;
};

/// Finds or compiles one text of the kernel, and loads what is in it. Without a device it is not loaded.
Result<Loaded> load_text(const Compilation& kernel, const std::function<Binary()>& wanted, ir::Regime regime,
                         const Binaries& binaries, const std::shared_ptr<const cuda::Device>& device) {
  const auto names = kernel.backend.names(kernel.plan, regime);
  Loaded out;
  bool refused = false;
  const auto load = [&](const cache::Entry& entry) -> Status {
    WEFT_CHECK(kernel.backend.check(entry));
    if (!device) return done;
    WEFT_TRY(const auto first, cuda::Module::load(device, entry.binary, names.symbol, kernel.pattern.name, &refused));
    for (std::size_t i = 0; i < out.modules.size(); ++i) {
      const auto& name = codegen::name_of(names, static_cast<ir::Step::Kernel>(i));
      if (name.empty()) continue;
      out.modules[i] = first;
      if (name != names.symbol) {
        WEFT_TRY(out.modules[i], first->sibling(name));
      }
    }
    return done;
  };
  WEFT_TRY(out.binary, find_and_load(kernel, binaries, wanted, load, refused));
  return out;
}

}  // namespace

Status load_cuda(Kernel::State& kernel, const Loading& with) {
  auto device = device_for(with.destination);
  if (!device && with.destination.device) return std::move(device).error();
  const auto on = device ? *device : nullptr;
  WEFT_TRY(auto first, load_text(
                           kernel, [&] { return kernel.binary; }, ir::Regime::many_queries, *with.binaries, on));
  kernel.binary = std::move(first.binary);
  const auto load = [&kernel, on, binaries = with.binaries](ir::Regime regime,
                                                            BuildTimes& times) -> Result<CudaExecutor::Modules> {
    WEFT_TRY(auto loaded, load_text(
                              kernel, [&] { return binary_of(kernel, regime); }, regime, *binaries, on));
    times += loaded.binary.times;
    return std::move(loaded.modules);
  };
  if (!on) {
    // What is compiled for another machine is compiled whole.
    for (const auto regime : ir::regimes_of(kernel.plan)) {
      if (regime != ir::Regime::many_queries) WEFT_CHECK(load(regime, kernel.binary.times));
    }
    kernel.executor = std::make_unique<Elsewhere>(kernel, std::move(device).error());
    return done;
  }
  auto executor = std::make_unique<CudaExecutor>(kernel, on, std::move(first.modules), load);
  if (kernel.plan.transposed) WEFT_CHECK(executor->load(ir::Regime::transposed, &kernel.binary.times));
  kernel.executor = std::move(executor);
  return done;
}

}  // namespace weft
