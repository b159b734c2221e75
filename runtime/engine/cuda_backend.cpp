#include "runtime/engine/cuda_backend.h"

#include "codegen/args.h"
#include "runtime/cuda/examine.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/cuda_executor.h"
#include "runtime/nvrtc/compile.h"
#include "runtime/nvrtc/search.h"

#include <fmt/format.h>

#include <chrono>

namespace weft {

namespace {

/// What the runtime must know beside the cubin, as the entry's `launch` section.
std::string launch_text(const codegen::Source& source, const codegen::cuda::Geometry& geometry) {
  auto text = fmt::format("abi {}\nsymbol {}\nthreads {}\nshared_fixed {}\nshared_per_term {}\n", kWeftArgsAbi,
                          source.symbol, geometry.threads, geometry.shared_fixed, geometry.shared_per_term);
  if (!source.prepass.empty()) {
    text += fmt::format("prepass {}\nprepass_threads {}\nprepass_shared {}\n", source.prepass, geometry.prepass_threads,
                        geometry.prepass_shared);
  }
  return text;
}

/// A kernel that was compiled for another machine's GPU.
class Elsewhere : public GpuExecutor {
 public:
  Elsewhere(ir::Plan plan, Error why) : GpuExecutor(std::move(plan)), why_(std::move(why)) {}
  Status run(const ir::Pattern&, const Launch&, const RunArgs&) const override { return why_; }
  Result<std::size_t> workspace(const RunShape&, int) const override { return why_; }

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

nvrtc::Options nvrtc_options(const EngineOptions& options, const std::string& name) {
  return {.pattern = name,
          .limits = {.deadline = std::chrono::milliseconds(options.deadline_ms),
                     .memory_bytes = static_cast<std::uint64_t>(options.memory_bytes)}};
}

Result<cache::Key> cuda_kernel_key(const codegen::Source& source, const codegen::cuda::Geometry& geometry,
                                   const Target& target, const std::string& nvrtc) {
  WEFT_TRY(const auto identity, nvrtc::identity(target, nvrtc));
  cache::Key key;
  key.add("backend", "cuda")
      .add("abi", std::to_string(kWeftArgsAbi))
      .add("target", target.name)
      .add("compiler", identity)
      .add("options", nvrtc::Options{}.text())
      .add("launch", launch_text(source, geometry))
      .add_digest_of("source", source.text);
  return key;
}

CudaBackend::CudaBackend(const EngineOptions& options) : options_(options) {}

Result<Binaries::Found> CudaBackend::binary_of(const codegen::Source& source, const codegen::cuda::Geometry& geometry,
                                               const ir::Plan& plan, const Target& target,
                                               const Binaries& binaries) const {
  WEFT_TRY(const auto key, cuda_kernel_key(source, geometry, target, options_.nvrtc));
  return binaries.find_or_compile(key, launch_text(source, geometry), [&]() -> Result<cache::Entry> {
    WEFT_TRY(const auto library, nvrtc::locate(target, options_.nvrtc));
    WEFT_TRY(auto compiled, nvrtc::compile(*library, source.text, target, nvrtc_options(options_, plan.name)));
    return cache::Entry{.binary = std::move(compiled.cubin),
                        .source = source.text,
                        .plan = ir::print(plan),
                        .registers = static_cast<std::uint32_t>(compiled.registers()),
                        .spill_bytes = static_cast<std::uint32_t>(compiled.spill_bytes())};
  });
}

Result<Built> CudaBackend::build(Planned planned, const Destination& destination, const Binaries& binaries) const {
  auto& front = planned.front;
  auto& plan = planned.plan;
  const auto& bind = planned.bind;
  const auto& target = planned.target;
  const Stopwatch emitting;
  auto source = codegen::cuda::emit(plan, target);
  const double emit_ms = emitting.ms();
  const auto geometry = codegen::cuda::geometry(plan);
  WEFT_TRY(auto binary, binary_of(source, geometry, plan, target, binaries));
  const auto plan_text = ir::print(plan);

  const Stopwatch loading;
  std::unique_ptr<const Executor> executor;
  if (auto device = device_for(destination); !device) {
    if (destination.device) return std::move(device).error();
    executor = std::make_unique<Elsewhere>(std::move(plan), std::move(device).error());
  } else {
    WEFT_TRY(auto module,
             cuda::Module::load(std::move(*device), binary.entry.binary, source.symbol, front.pattern.name));
    std::shared_ptr<const cuda::Module> prepass;
    if (!source.prepass.empty()) {
      WEFT_TRY(prepass, module->sibling(source.prepass));
    }
    executor = std::make_unique<CudaExecutor>(std::move(plan), target, std::move(module), std::move(prepass));
  }
  binary.load_ms += loading.ms();

  auto state = make_state(std::move(front), bind, target.name, plan_text, std::move(source.text));
  state->binary = std::move(binary.entry.binary);
  state->registers = binary.entry.registers;
  state->spill_bytes = binary.entry.spill_bytes;
  state->executor = std::move(executor);
  return built(std::move(state), binary, emit_ms);
}

}  // namespace weft
