#include "runtime/cuda/examine.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/backends.h"
#include "runtime/engine/cuda_executor.h"
#include "runtime/engine/texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

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

/// What makes one text after another: which finds or compiles it, and loads what is in it. Without a device it is not
/// loaded.
class TextLoader {
 public:
  TextLoader(const Compilation& kernel, std::shared_ptr<const Binaries> binaries,
             std::shared_ptr<const cuda::Device> device)
      : kernel_(kernel), binaries_(std::move(binaries)), device_(std::move(device)) {}

  struct Loaded {
    CudaExecutor::Modules modules;
    Binary binary;
  };
  Result<Loaded> operator()(const Binary& wanted) const {
    const auto names = kernel_.backend.names(kernel_.plan, wanted.regime);
    Loaded out;
    bool refused = false;
    const auto load = [&](const cache::Entry& entry) -> Status {
      WEFT_CHECK(kernel_.backend.check(entry));
      if (!device_) return done;
      WEFT_TRY(const auto first,
               cuda::Module::load(device_, entry.binary, names.symbol, kernel_.pattern.name, &refused));
      for (std::size_t i = 0; i < out.modules.size(); ++i) {
        const auto& name = names.of_steps[i];
        if (name.empty()) continue;
        out.modules[i] = first;
        if (name != names.symbol) {
          WEFT_TRY(out.modules[i], first->sibling(name));
        }
      }
      return done;
    };
    WEFT_TRY(out.binary, find_and_load(wanted, load, refused));
    return out;
  }
  Result<Loaded> operator()(ir::Regime text) const { return (*this)(binaries_->name_of(kernel_, text)); }

 private:
  /// By another NVRTC where the driver does not take what one made: the driver is older than that one. `load` says
  /// through `refused` whether it was so.
  Result<Binary> find_and_load(const Binary& wanted, const cache::Judge& load, bool& refused) const {
    const Compilers& compilers = binaries_->compilers();
    while (true) {
      refused = false;
      const auto compiler = compilers.identity(kernel_.target);
      auto binary = binaries_->find_and_load(kernel_, wanted, load);
      if (binary || !refused || !compiler || !compilers.pass_over(kernel_.target, *compiler)) return binary;
      binaries_->warn("another NVRTC is used, as the driver does not take a kernel: " + binary.error().message);
    }
  }

  const Compilation& kernel_;
  std::shared_ptr<const Binaries> binaries_;
  std::shared_ptr<const cuda::Device> device_;
};

}  // namespace

Status load_cuda(Kernel::State& kernel, const Loading& with) {
  auto device = device_for(with.destination);
  if (!device && with.destination.device) return std::move(device).error();
  const auto on = device ? *device : nullptr;
  const TextLoader load(kernel, with.binaries, on);
  auto texts = kernel.texts;
  if (!on) {  // what is compiled for another machine is compiled whole
    for (const auto text : ir::regimes_of(kernel.plan)) {
      if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
    }
  }
  std::array<std::optional<TextLoader::Loaded>, ir::kRegimes> made;
  BuildTimes times;
  const auto make = [&](ir::Regime text, BuildTimes& took) -> Status {
    auto& to = made[static_cast<std::size_t>(text)];
    WEFT_TRY(to, text == kernel.binary.regime ? load(kernel.binary) : load(text));
    took = to->binary.times;
    return done;
  };
  WEFT_CHECK(make_texts(*with.workers, texts, &times, make));
  kernel.binary = std::move(made[static_cast<std::size_t>(texts.front())]->binary);
  kernel.binary.times = times;
  if (!on) {
    kernel.executor = std::make_unique<Elsewhere>(kernel, std::move(device).error());
    return done;
  }
  auto executor = std::make_unique<CudaExecutor>(
      kernel, on, with.workers, [load](ir::Regime text, BuildTimes& took) -> Result<CudaExecutor::Modules> {
        WEFT_TRY(auto loaded, load(text));
        took = loaded.binary.times;
        return std::move(loaded.modules);
      });
  for (const auto text : texts) executor->take(text, std::move(made[static_cast<std::size_t>(text)]->modules));
  kernel.executor = std::move(executor);
  return done;
}

}  // namespace weft
