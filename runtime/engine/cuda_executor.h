#pragma once

#include "compiler/target/target.h"
#include "runtime/cuda/memory.h"
#include "runtime/cuda/module.h"
#include "runtime/engine/gpu_executor.h"

#include <memory>

namespace weft {

/// Runs a loaded kernel on a GPU: one launch per phase, queued on the caller's stream. Tables go to the device with
/// the first launch that has so many heads; after that a launch allocates nothing and waits for nothing.
class CudaExecutor : public GpuExecutor {
 public:
  /// The kernels of one cubin. `prepass` runs before the attention, `merge` behind it; null where there is none.
  struct Modules {
    std::shared_ptr<const cuda::Module> attend, prepass, merge;
  };
  CudaExecutor(const ir::Plan& plan, const Target& target, Modules modules);
  Result<BuildTimes> prepare(const ir::Shape& shape) const override;

  Status run(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const override;
  Result<std::size_t> workspace(const ir::Shape& shape, int threads) const override;
  bool reads_host_memory() const override { return false; }
  const std::shared_ptr<const cuda::Device>& device() const { return modules_.attend->device(); }

 private:
  /// What depends on the number of heads only.
  struct PerHeads {
    HeadTables tables;
    cuda::Buffer words;  ///< the tables' image on the device
    std::int64_t shared_bytes = 0;
  };
  Result<std::shared_ptr<const PerHeads>> per_heads(std::int64_t heads) const;
  Status check_pointers(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const;
  Status queue(const PerHeads& per_heads, const ir::Pattern& pattern, const Launch& launch, const RunArgs& args,
               std::byte* scratch) const;
  Status queue_lists(const ir::Pattern& pattern, const Launch& launch, Piece& piece, std::byte* memory,
                     cuda::StreamHandle* stream) const;
  Status queue_chunks(Piece& piece, std::byte* scratch, cuda::StreamHandle* stream) const;
  Result<std::size_t> scratch_bytes(const ir::Shape& shape, std::size_t of_chunks) const;

  const Target& target_;
  Modules modules_;
  mutable KnownHeads<PerHeads> known_heads_;
  mutable cuda::BufferPool pool_;
};

/// The GPU that a kernel's launches go to; null for a kernel that runs elsewhere.
std::shared_ptr<const cuda::Device> device_of(const Kernel& kernel);

}  // namespace weft
