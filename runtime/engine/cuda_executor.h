#pragma once

#include "runtime/cuda/memory.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/first_use.h"
#include "runtime/engine/gpu_executor.h"
#include "runtime/engine/steps.h"
#include "runtime/engine/workers.h"

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
  CudaExecutor(const Compilation& kernel, std::shared_ptr<const cuda::Device> device,
               std::shared_ptr<const Workers> workers, Load load);
  /// A text that was loaded before there was an executor.
  void take(ir::Regime text, Modules modules);
  Result<BuildTimes> prepare(const ir::Shape& shape, bool sizes_at) const override;

  Status run(const Launch& launch, const RunArgs& args) const override;
  Result<std::size_t> workspace(const ir::Shape& shape, int threads) const override;
  bool reads_host_memory() const override { return false; }
  const std::shared_ptr<const cuda::Device>& device() const { return device_; }

 private:
  /// A text that can be launched with so many heads: with shared memory for their tables.
  struct Ready {};
  /// Makes these texts so: loads them, if no launch has needed them yet, and their tables.
  Status make_ready(const std::vector<ir::Regime>& texts, std::int64_t heads, BuildTimes* times = nullptr) const;
  /// Are they?
  bool knows(const std::vector<ir::Regime>& texts, std::int64_t heads) const;
  Result<Ready> allow_shared(ir::Regime text, const HeadTables& tables, std::int64_t heads) const;
  /// The image on the device of the tables that a text reads.
  Result<std::shared_ptr<const cuda::Buffer>> words_of(ir::Regime text, const HeadTables& tables,
                                                       std::int64_t heads) const;
  /// Of a text that is loaded.
  const cuda::Module& module(ir::Regime text, ir::Step::Kernel kernel) const;
  Status check_pointers(const Launch& launch, const RunArgs& args) const;
  Status queue(const Job& job, Room room, const RoomSizes& sizes, std::byte* scratch) const;

  std::shared_ptr<const cuda::Device> device_;
  std::shared_ptr<const Workers> workers_;
  Load load_;
  std::array<FirstUse<Modules>, ir::kRegimes> modules_;
  std::array<KnownHeads<Ready>, ir::kRegimes> ready_;
  std::array<KnownHeads<cuda::Buffer>, ir::kRegimes> words_;  ///< by ir::tables_of
  mutable cuda::BufferPool pool_;
};

/// The GPU that a kernel's launches go to; null for a kernel that runs elsewhere.
std::shared_ptr<const cuda::Device> device_of(const Kernel& kernel);

}  // namespace weft
