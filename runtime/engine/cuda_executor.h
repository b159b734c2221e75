#pragma once

#include "compiler/target/target.h"
#include "runtime/cuda/memory.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/gpu_executor.h"
#include "runtime/engine/steps.h"

#include <array>
#include <memory>

namespace weft {

/// Runs a loaded kernel on a GPU: one launch per phase, queued on the caller's stream. Tables go to the device with
/// the first launch that has so many heads; after that a launch allocates nothing and waits for nothing.
class CudaExecutor : public GpuExecutor {
 public:
  /// The kernels of one cubin, by Step::Kernel; null where it has none.
  using Modules = std::array<std::shared_ptr<const cuda::Module>, 3>;
  CudaExecutor(const ir::Plan& plan, const Target& target, Modules modules);
  Result<BuildTimes> prepare(const ir::Shape& shape) const override;

  Status run(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const override;
  Result<std::size_t> workspace(const ir::Shape& shape, int threads) const override;
  bool reads_host_memory() const override { return false; }
  const std::shared_ptr<const cuda::Device>& device() const { return modules_.front()->device(); }

 private:
  /// What depends on the number of heads only.
  struct PerHeads {
    HeadTables tables;
    cuda::Buffer words;  ///< the tables' image on the device
  };
  Result<std::shared_ptr<const PerHeads>> per_heads(std::int64_t heads) const;
  Status check_pointers(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const;
  Status queue(const Job& job, const PerHeads& per_heads, const RoomSizes& sizes, std::byte* scratch) const;

  const Target& target_;
  Modules modules_;
  mutable KnownHeads<PerHeads> known_heads_;
  mutable cuda::BufferPool pool_;
};

/// The GPU that a kernel's launches go to; null for a kernel that runs elsewhere.
std::shared_ptr<const cuda::Device> device_of(const Kernel& kernel);

}  // namespace weft
