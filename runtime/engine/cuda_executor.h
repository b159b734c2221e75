#pragma once

#include "runtime/cuda/memory.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/first_use.h"
#include "runtime/engine/gpu_executor.h"
#include "runtime/engine/steps.h"

#include <array>
#include <functional>
#include <memory>

namespace weft {

/// Runs a loaded kernel on a GPU: one launch per phase, queued on the caller's stream. Tables go to the device with
/// the first launch that has so many heads, and the kernels of inputs' gradients with the first that wants one; after
/// that a launch allocates nothing and waits for nothing.
class CudaExecutor : public GpuExecutor {
 public:
  /// The kernels by ir::Step::Kernel, null where there is none; that of the transposed plan has a cubin of its own.
  using Modules = std::array<std::shared_ptr<const cuda::Module>, ir::Step::kKernels>;
  /// `load_inputs`: gives Modules of Regime::inputs, and what that took; called by the first launch that needs them.
  using LoadInputs = std::function<Result<Modules>(BuildTimes&)>;
  CudaExecutor(const Compilation& kernel, Modules modules, LoadInputs load_inputs);
  Result<BuildTimes> prepare(const ir::Shape& shape) const override;

  Status run(const Launch& launch, const RunArgs& args) const override;
  Result<std::size_t> workspace(const ir::Shape& shape, int threads) const override;
  bool reads_host_memory() const override { return false; }
  const std::shared_ptr<const cuda::Device>& device() const { return modules_.front()->device(); }

 private:
  /// The image of the kernel's tables on the device.
  Result<std::shared_ptr<const cuda::Buffer>> words_of(const HeadTables& tables, std::int64_t heads,
                                                       ir::Regime regime) const;
  /// Are all tables that the launch reads on the device, and all its kernels?
  bool knows(const Launch& launch) const;
  /// Loads what a regime has and the first launch had not.
  Status load(ir::Regime regime, BuildTimes* times = nullptr) const;
  const cuda::Module& module(ir::Step::Kernel kernel) const;
  Status check_pointers(const Launch& launch, const RunArgs& args) const;
  Status queue(const Job& job, Room room, const RoomSizes& sizes, std::byte* scratch) const;

  Modules modules_;
  LoadInputs load_inputs_;
  FirstUse<Modules> inputs_;
  std::array<KnownHeads<cuda::Buffer>, ir::kRegimes> words_;
  mutable cuda::BufferPool pool_;
};

/// The GPU that a kernel's launches go to; null for a kernel that runs elsewhere.
std::shared_ptr<const cuda::Device> device_of(const Kernel& kernel);

}  // namespace weft
