#include "runtime/engine/cuda_executor.h"

#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace weft {

namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// The workspace: one offset per batch entry, how its keys are cut, then the state of rows between launches.
std::size_t entry_bytes(std::int64_t batch) {
  return aligned(static_cast<std::size_t>(batch) * 3 * sizeof(std::int64_t));
}

}  // namespace

CudaExecutor::CudaExecutor(const ir::Plan& plan, const Target& target, Modules modules)
    : GpuExecutor(plan), target_(target), modules_(std::move(modules)) {}

Result<std::shared_ptr<const CudaExecutor::PerHeads>> CudaExecutor::per_heads(std::int64_t heads) const {
  return known_heads_.get(heads, [&]() -> Result<PerHeads> {
    WEFT_TRY(auto tables, make_head_tables(plan_, heads));
    const auto shared = geometry_.shared_bytes(tables.tables.most_terms);
    if (shared > target_.shared_per_block) {
      return user_error(fmt::format("{} with {} heads needs {} bytes of shared memory a block; {} has {}", plan_.name,
                                    heads, shared, target_.name, target_.shared_per_block));
    }
    WEFT_CHECK(modules_.attend->allow_shared(shared));
    const auto& words = tables.tables.words;
    WEFT_TRY(auto buffer,
             cuda::Buffer::upload(modules_.attend->device(), words.data(), words.size() * sizeof words[0]));
    return PerHeads{.tables = std::move(tables), .words = std::move(buffer), .shared_bytes = shared};
  });
}

Result<BuildTimes> CudaExecutor::prepare(const ir::Shape& shape) const {
  WEFT_TRY(const auto current, cuda::Current::make(*modules_.attend->device()));
  WEFT_CHECK(check_positions(shape));
  WEFT_CHECK(per_heads(shape.heads));
  return BuildTimes();
}

Result<std::size_t> CudaExecutor::workspace(const ir::Shape& shape, int) const {
  WEFT_TRY(const auto bytes, scratch_bytes(shape, most_chunk_bytes(shape)));
  if (bytes == 0 && shape.batch <= 1) return std::size_t{0};
  return entry_bytes(shape.batch) + bytes + kAlignment;  // the caller's buffer may start anywhere
}

/// What rows carry between phases or chunks of keys, then the lists, then what the prepass needs.
Result<std::size_t> CudaExecutor::scratch_bytes(const ir::Shape& shape, std::size_t of_chunks) const {
  WEFT_TRY(const auto carry, carry_bytes(plan_, shape));
  WEFT_TRY(const auto lists, list_bytes(plan_, shape));
  return aligned(std::max(carry, of_chunks)) + aligned(lists) + list_scratch_bytes(plan_, shape);
}

/// A pointer that the GPU cannot follow would end the whole context.
Status CudaExecutor::check_pointers(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const {
  const auto check = [&](const std::string& name, const void* data) -> Status {
    if (data == nullptr) return done;
    WEFT_TRY(const auto problem, cuda::pointer_problem(*modules_.attend->device(), data));
    return problem.empty() ? Status(done) : user_error(fmt::format("{} {}", name, problem));
  };
  WEFT_CHECK(check("q", args.q.data));
  WEFT_CHECK(check("k", args.k.data));
  WEFT_CHECK(check("v", args.v.data));
  WEFT_CHECK(check("out", args.out.data));
  WEFT_CHECK(check("lse", args.lse.data));
  WEFT_CHECK(check("branch_lse", args.branch_lse.data));
  WEFT_CHECK(check("pages", args.pages.data));
  WEFT_CHECK(check("the workspace", args.workspace.data()));
  for (std::size_t i = 0; i < launch.lists.size(); ++i) {
    WEFT_CHECK(check(fmt::format("list {}", i), launch.lists[i].data));
  }
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    WEFT_CHECK(check(fmt::format("input '{}'", pattern.inputs[i].name), launch.inputs[i].data));
  }
  return done;
}

Status CudaExecutor::run(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const {
  WEFT_TRY(const auto current, cuda::Current::make(*modules_.attend->device()));
  WEFT_CHECK(check_pointers(pattern, launch, args));
  WEFT_CHECK(check_positions(launch.shape));
  WEFT_TRY(const auto tables, per_heads(launch.shape.heads));
  WEFT_TRY(const auto beside_offsets, scratch_bytes(launch.shape, chunk_bytes(launch)));
  const bool wants_scratch = beside_offsets > 0 || args.offset.size() > 1;
  const auto bytes = entry_bytes(launch.shape.batch) + beside_offsets;
  if (!wants_scratch) return queue(*tables, pattern, launch, args, nullptr);
  if (!args.workspace.empty()) {
    void* scratch = args.workspace.data();
    std::size_t room = args.workspace.size();
    if (std::align(kAlignment, bytes, scratch, room) == nullptr) {
      return user_error(
          fmt::format("the workspace has {} bytes; this launch wants {}", args.workspace.size(), bytes + kAlignment));
    }
    return queue(*tables, pattern, launch, args, static_cast<std::byte*>(scratch));
  }
  auto* const stream = static_cast<cuda::StreamHandle*>(args.stream);
  WEFT_TRY(auto pooled, pool_.take(modules_.attend->device(), stream, bytes));
  auto queued = queue(*tables, pattern, launch, args, static_cast<std::byte*>(pooled.data()));
  pool_.give_back(stream, std::move(pooled));
  return queued;
}

Status CudaExecutor::queue(const PerHeads& per_heads, const ir::Pattern& pattern, const Launch& launch,
                           const RunArgs& args, std::byte* scratch) const {
  auto* const stream = static_cast<cuda::StreamHandle*>(args.stream);
  auto block = argument_block(plan_, launch, args);
  block.tables = static_cast<const std::int64_t*>(per_heads.words.data());
  block.most_terms = per_heads.tables.tables.most_terms;
  if (scratch != nullptr) block.carry = reinterpret_cast<float*>(scratch + entry_bytes(launch.shape.batch));
  if (block.offsets != nullptr) {
    const auto& driver = modules_.attend->device()->driver();
    WEFT_CUDA(driver, cuMemcpyHtoDAsync_v2,
              (reinterpret_cast<cuda::DeviceAddress>(scratch), block.offsets, args.offset.size_bytes(), stream));
    block.offsets = reinterpret_cast<const std::int64_t*>(scratch);
  }
  WEFT_TRY(const auto carry, carry_bytes(plan_, launch.shape));
  const auto state = aligned(std::max(carry, chunk_bytes(launch)));
  for (auto& piece : pieces_of(launch, block, size_of(args.q.dtype))) {
    if (modules_.prepass != nullptr) {
      auto* const memory = scratch + entry_bytes(launch.shape.batch) + state;
      WEFT_CHECK(queue_lists(pattern, launch, piece, memory, stream));
    }
    WEFT_CHECK(queue_chunks(piece, scratch, stream));
    const auto run = [&](const Step& step) -> Status {
      const bool merges = step.kernel == Step::Kernel::merge;
      return (merges ? modules_.merge : modules_.attend)
          ->launch({.blocks = step.blocks,
                    .threads = geometry_.threads,
                    .shared_bytes = merges ? 0 : per_heads.shared_bytes},
                   step.args, stream);
    };
    for (std::size_t phase = 0; phase < plan_.phases.size(); ++phase) {
      WEFT_CHECK(each_step(phase, per_heads.tables, piece, run));
    }
  }
  return done;
}

/// How keys are cut goes to the device where it differs from entry to entry.
Status CudaExecutor::queue_chunks(Piece& piece, std::byte* scratch, cuda::StreamHandle* stream) const {
  const auto of_entry = cut_keys(piece);
  if (of_entry.empty()) return done;
  const auto& driver = modules_.attend->device()->driver();
  std::byte* const to = scratch + piece.shape.batch * static_cast<std::int64_t>(sizeof of_entry[0]);
  WEFT_CUDA(driver, cuMemcpyHtoDAsync_v2,
            (reinterpret_cast<cuda::DeviceAddress>(to), of_entry.data(), of_entry.size() * sizeof of_entry[0], stream));
  piece.block.chunks_of_entry = reinterpret_cast<const std::int64_t*>(to);
  return done;
}

Status CudaExecutor::queue_lists(const ir::Pattern& pattern, const Launch& launch, Piece& piece, std::byte* memory,
                                 cuda::StreamHandle* stream) const {
  WEFT_TRY(const auto bytes, list_bytes(plan_, piece.shape));
  place_lists(plan_, piece.shape, reinterpret_cast<std::int32_t*>(memory), piece.block);
  WEFT_CHECK(use_caller_lists(plan_, pattern, launch, piece.block));
  WEFT_TRY(const auto launches, list_launches(plan_, piece));
  for (const auto& one : launches) {
    weft_args mine = one.block;
    mine.scratch = memory + aligned(bytes);
    WEFT_CHECK(modules_.prepass->launch(
        {.blocks = one.blocks, .threads = geometry_.prepass_threads, .shared_bytes = geometry_.prepass_shared}, &mine,
        stream));
  }
  return done;
}

std::shared_ptr<const cuda::Device> device_of(const Kernel& kernel) {
  const auto* const executor = dynamic_cast<const CudaExecutor*>(kernel.state().executor.get());
  return executor == nullptr ? nullptr : executor->device();
}

}  // namespace weft
