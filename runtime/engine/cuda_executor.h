#pragma once

#include "runtime/cuda/memory.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/first_use.h"
#include "runtime/engine/gpu_executor.h"
#include "runtime/engine/steps.h"

#include <array>
#include <functional>
#include <memory>
#include <vector>

namespace weft {

/// Runs a loaded kernel on a GPU: one launch per phase, queued on the caller's stream. Tables go to the device with
/// the first launch that has so many heads, and texts that not every launch needs, as those of few queries or of
/// inputs' gradients, with the first that does; after that a launch allocates nothing and waits for nothing.
class CudaExecutor : public GpuExecutor {
 public:
  /// Of one text: the kernels by the steps that run them, null where there is none.
  using Modules = std::array<std::shared_ptr<const cuda::Module>, ir::Step::kKernels>;
  /// Gives those of a text, and what that took.
  using Load = std::function<Result<Modules>(ir::Regime, BuildTimes&)>;
  CudaExecutor(const Compilation& kernel, std::shared_ptr<const cuda::Device> device, Modules first, Load load);
  /// Loads a text, if no launch has needed it yet.
  Status load(ir::Regime regime, BuildTimes* times = nullptr) const;
  Result<BuildTimes> prepare(const ir::Shape& shape, bool sizes_at) const override;

  Status run(const Launch& launch, const RunArgs& args) const override;
  Result<std::size_t> workspace(const ir::Shape& shape, int threads) const override;
  bool reads_host_memory() const override { return false; }
  const std::shared_ptr<const cuda::Device>& device() const { return device_; }

 private:
  /// The image of the kernel's tables on the device.
  Result<std::shared_ptr<const cuda::Buffer>> words_of(const HeadTables& tables, std::int64_t heads,
                                                       ir::Regime regime) const;
  /// Are all tables for so many heads on the device, and all kernels of these texts?
  bool knows(const std::vector<ir::Regime>& regimes, std::int64_t heads) const;
  /// Of a text that is loaded.
  const cuda::Module& module(ir::Regime text, ir::Step::Kernel kernel) const;
  Status check_pointers(const Launch& launch, const RunArgs& args) const;
  Status queue(const Job& job, Room room, const RoomSizes& sizes, std::byte* scratch) const;

  std::shared_ptr<const cuda::Device> device_;
  Load load_;
  std::array<FirstUse<Modules>, ir::kRegimes> modules_;
  std::array<KnownHeads<cuda::Buffer>, ir::kRegimes> words_;
  mutable cuda::BufferPool pool_;
};

/// The GPU that a kernel's launches go to; null for a kernel that runs elsewhere.
std::shared_ptr<const cuda::Device> device_of(const Kernel& kernel);

}  // namespace weft
