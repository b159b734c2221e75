#include "runtime/engine/cpu_executor.h"

#include "compiler/ir/few_rows.h"
#include "runtime/cpu/run.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/backends.h"
#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>

namespace weft {

namespace {

constexpr std::size_t kAlignment = ScratchPool::kAlignment;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

Status load_cpu(Kernel::State& kernel, const Loading& with) {
  if (std::string why; !host_can_execute(kernel.target, &why)) {
    return environment_error(fmt::format("this machine cannot execute {}: {}", kernel.target.name, why));
  }
  WEFT_TRY(auto kernels, CpuKernels::make(kernel, kernel.binary, with.binaries));
  kernel.executor = std::make_unique<CpuExecutor>(kernel.plan, std::move(kernels), with.workers);
  return done;
}

CpuExecutor::CpuExecutor(const ir::Plan& plan, std::unique_ptr<const CpuKernels> kernels,
                         std::shared_ptr<const Workers> workers)
    : plan_(plan), kernels_(std::move(kernels)), workers_(std::move(workers)) {
  if (plan_.bind.gradient) pages_.emplace(cpu::kPageKeys * kernels_->many().at.sum_row);
}

Result<std::shared_ptr<const CpuExecutor::PerHeads>> CpuExecutor::per_heads(std::int64_t heads) const {
  return known_heads_.get(heads, [&]() -> Result<PerHeads> {
    WEFT_TRY(auto tables, make_head_tables(plan_, heads));
    const auto scratch = codegen::cpu::scratch_bytes(kernels_->many().at, tables.tables.most_terms);
    return PerHeads{.tables = std::move(tables), .scratch = aligned(static_cast<std::size_t>(scratch))};
  });
}

/// The threads' scratch, the state that rows carry between phases, the lists.
Result<std::size_t> CpuExecutor::total_scratch(const PerHeads& per_heads, const ir::Shape& shape, int threads) const {
  WEFT_TRY(const auto carry, carry_bytes(plan_, shape));
  WEFT_TRY(const auto lists, list_bytes(plan_, shape));
  return per_heads.scratch * static_cast<std::size_t>(threads) + aligned(carry) + lists;
}

Result<std::size_t> CpuExecutor::workspace(const ir::Shape& shape, int threads) const {
  WEFT_TRY(const auto tables, per_heads(shape.heads));
  WEFT_TRY(const auto bytes, total_scratch(*tables, shape, threads > 0 ? threads : workers_->threads()));
  return bytes + kAlignment;  // the caller's buffer may start anywhere
}

Result<BuildTimes> CpuExecutor::prepare(const ir::Shape& shape) const {
  BuildTimes times;
  WEFT_CHECK(per_heads(shape.heads));
  WEFT_CHECK(kernels_->of(ir::regime_of(plan_, shape.n_q), &times));
  return times;
}

Status CpuExecutor::run(const ir::Pattern& pattern, const Launch& launch, const RunArgs& args) const {
  const auto& shape = launch.shape;
  WEFT_TRY(const auto tables, per_heads(shape.heads));
  const int threads = args.threads > 0 ? args.threads : workers_->threads();
  WEFT_TRY(const auto bytes, total_scratch(*tables, shape, threads));

  ScratchPool::Buffer pooled;
  void* scratch = args.workspace.data();
  std::size_t room = args.workspace.size();
  if (args.workspace.empty()) {
    pooled = pool_.take(bytes);
    scratch = pooled.bytes.get();
    if (scratch == nullptr) return environment_error(fmt::format("out of memory: {} bytes of scratch", bytes));
  } else if (std::align(kAlignment, bytes, scratch, room) == nullptr) {
    return user_error(
        fmt::format("the workspace has {} bytes; this launch wants {}", args.workspace.size(), bytes + kAlignment));
  }

  auto block = argument_block(plan_, launch, args);
  block.tables = tables->tables.tables.words.data();
  block.most_terms = tables->tables.tables.most_terms;
  auto* const first = static_cast<std::byte*>(scratch);
  block.carry = reinterpret_cast<float*>(first + tables->scratch * static_cast<std::size_t>(threads));
  WEFT_TRY(const auto carry, carry_bytes(plan_, shape));
  auto* const lists = reinterpret_cast<std::int32_t*>(reinterpret_cast<std::byte*>(block.carry) + aligned(carry));
  auto pieces = pieces_of(launch, block, size_of(args.q.dtype));
  for (const auto& piece : pieces) WEFT_CHECK(kernels_->of(ir::regime_of(plan_, piece.shape.n_q)));
  if (launch.gradient && !launch.sequences.empty()) clear_gradients(args);
  try {
    InputGradients inputs = launch.gradient ? make_input_gradients(launch) : InputGradients();
    for (auto& piece : pieces) WEFT_CHECK(run_piece(piece, pattern, launch, *tables, first, lists, threads, inputs));
    if (launch.gradient) store_input_gradients(launch, inputs);
  } catch (const std::bad_alloc&) {
    return environment_error("out of memory: there is no room for what threads add up for dK, dV and inputs");
  }
  if (pooled.bytes) pool_.give_back(std::move(pooled));
  return done;
}

Status CpuExecutor::run_piece(Piece& piece, const ir::Pattern& pattern, const Launch& launch, const PerHeads& per_heads,
                              std::byte* scratch, std::int32_t* lists, int threads, InputGradients& inputs) const {
  place_lists(plan_, piece.shape, lists, piece.block);
  WEFT_CHECK(use_caller_lists(plan_, pattern, launch, piece.block));
  fill_lists(plan_, piece, *workers_, threads);
  WEFT_CHECK(summarize(piece, per_heads.scratch, scratch, threads));
  if (launch.gradient) {
    run_backward({.plan = plan_,
                  .kernels = kernels_->many(),
                  .tables = per_heads.tables,
                  .workers = *workers_,
                  .pool = *pages_,
                  .scratch = scratch,
                  .scratch_of_thread = per_heads.scratch,
                  .threads = threads},
                 piece, inputs);
    return done;
  }
  WEFT_TRY(const auto* const kernels, kernels_->of(ir::regime_of(plan_, piece.shape.n_q)));
  for (std::size_t phase = 0; phase < plan_.phases.size(); ++phase)
    run_phase(phase, *kernels, per_heads, piece, scratch, threads);
  return done;
}

Status CpuExecutor::summarize(const Piece& piece, std::size_t scratch_of_thread, std::byte* scratch,
                              int threads) const {
  WEFT_TRY(const auto launches, list_launches(plan_, piece));
  for (const auto& launch : launches) {
    if (!plan_.lists[launch.list].summarizes()) continue;
    std::atomic<std::int64_t> next{0};
    workers_->run(static_cast<int>(std::min<std::int64_t>(threads, launch.blocks)), [&](int slot) {
      weft_args mine = launch.block;
      mine.phase = -1 - static_cast<std::int64_t>(launch.list);
      mine.scratch = scratch + scratch_of_thread * static_cast<std::size_t>(slot);
      for (auto unit = next++; unit < launch.blocks; unit = next++) {
        mine.tile_end = launch.block.tile_end + unit;
        cpu::run(kernels_->many(), mine);
      }
    });
  }
  return done;
}

void CpuExecutor::run_phase(std::size_t phase, const codegen::cpu::MicroKernels& kernels, const PerHeads& per_heads,
                            const Piece& piece, std::byte* scratch, int threads) const {
  weft_args args = piece.block;
  args.phase = static_cast<std::int64_t>(phase);
  number_tiles(plan_, per_heads.tables, phase, piece.shape, args);
  const auto first = piece.first_head / args.heads_per_tile * args.tiles_per_head;
  const auto total = piece.heads / args.heads_per_tile * args.tiles_per_head;
  const auto slots = static_cast<int>(std::min<std::int64_t>(threads, total));
  // Small enough that the last ones even out, large enough that neighbours share keys in a thread's cache.
  const auto chunk = std::clamp<std::int64_t>(total / (std::int64_t{threads} * 32), 1, 8);
  std::atomic<std::int64_t> next{0};
  workers_->run(slots, [&](int slot) {
    weft_args mine = args;
    mine.scratch = scratch + per_heads.scratch * static_cast<std::size_t>(slot);
    for (auto begin = next.fetch_add(chunk); begin < total; begin = next.fetch_add(chunk)) {
      mine.tile_begin = first + begin;
      mine.tile_end = first + std::min(begin + chunk, total);
      cpu::run(kernels, mine);
    }
  });
}

}  // namespace weft
