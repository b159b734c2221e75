#include "runtime/engine/cpu_executor.h"

#include "compiler/ir/few_rows.h"
#include "runtime/cpu/run.h"
#include "runtime/engine/backends.h"
#include "runtime/engine/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>

namespace weft {

namespace {

constexpr std::size_t kAlignment = ScratchPool::kAlignment;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::size_t bytes_of(const RoomSizes& sizes) { return aligned(sizes.carry) + sizes.lists; }

}  // namespace

Status load_cpu(Kernel::State& kernel, const Loading& with) {
  if (std::string why; !host_can_execute(kernel.target, &why)) {
    return environment_error(fmt::format("this machine cannot execute {}: {}", kernel.target.name, why));
  }
  WEFT_TRY(auto kernels, CpuKernels::make(kernel, kernel.binary, with.binaries));
  kernel.executor = std::make_unique<CpuExecutor>(kernel, std::move(kernels), with.workers);
  return done;
}

CpuExecutor::CpuExecutor(const Compilation& kernel, std::unique_ptr<const CpuKernels> kernels,
                         std::shared_ptr<const Workers> workers)
    : Executor(kernel), kernels_(std::move(kernels)), workers_(std::move(workers)) {
  if (kernel_.plan.bind.gradient) pages_.emplace(cpu::kPageKeys * kernels_->many().at.sum_row);
}

Threads CpuExecutor::threads_for(const HeadTables& tables, int threads) const {
  const auto bytes = codegen::cpu::scratch_bytes(kernels_->many().at, tables.tables.most_terms);
  return {.count = threads > 0 ? threads : workers_->threads(), .bytes = aligned(static_cast<std::size_t>(bytes))};
}

Result<std::size_t> CpuExecutor::workspace(const ir::Shape& shape, int threads) const {
  WEFT_TRY(const auto tables, kernel_.tables(shape.heads));
  WEFT_TRY(const auto sizes, most_room_for(kernel_.plan, shape));
  const auto each = threads_for(*tables, threads);
  return each.bytes * static_cast<std::size_t>(each.count) + bytes_of(sizes) + kAlignment;  // it may start anywhere
}

Result<BuildTimes> CpuExecutor::prepare(const ir::Shape& shape, bool) const {
  BuildTimes times;
  WEFT_CHECK(kernel_.tables(shape.heads));
  WEFT_CHECK(kernels_->of(ir::regime_of(kernel_.plan, shape.n_q), &times));
  return times;
}

Status CpuExecutor::run(const Launch& launch, const RunArgs& args) const {
  WEFT_TRY(const auto tables, kernel_.tables(launch.shape.heads));
  WEFT_TRY(const auto sizes, room_for(kernel_.plan, launch));
  Threads threads = threads_for(*tables, args.threads);
  const auto bytes = threads.bytes * static_cast<std::size_t>(threads.count) + bytes_of(sizes);
  ScratchPool::Buffer pooled;
  if (args.workspace.empty()) {
    pooled = pool_.take(bytes);
    threads.scratch = pooled.bytes.get();
    if (threads.scratch == nullptr) return environment_error(fmt::format("out of memory: {} bytes of scratch", bytes));
  } else {
    WEFT_TRY(threads.scratch, in_workspace(args.workspace, bytes, kAlignment));
  }
  // Before anything is written: what launches of such lengths call may yet have to be compiled.
  if (launch.sequences.empty()) WEFT_CHECK(kernels_->of(ir::regime_of(kernel_.plan, launch.shape.n_q)));
  for (const auto& s : launch.sequences) {
    if (s.n_q > 0) WEFT_CHECK(kernels_->of(ir::regime_of(kernel_.plan, s.n_q)));
  }
  const Job job{.kernel = kernel_, .tables = *tables, .launch = launch, .args = args};
  const Room room{.tables = tables->tables.words.data(),
                  .carry = threads.behind(),
                  .lists = reinterpret_cast<std::int32_t*>(threads.behind() + aligned(sizes.carry))};
  try {
    WEFT_CHECK(launch.gradient
                   ? run_gradients(job, room, threads)
                   : run_steps(job, room, {.run = [&](const Turn& turn) { return run_turn(turn, threads); }}));
  } catch (const std::bad_alloc&) {
    return environment_error("out of memory: there is no room for what threads add up for dK, dV and inputs");
  }
  if (pooled.bytes) pool_.give_back(std::move(pooled));
  return done;
}

Status CpuExecutor::run_gradients(const Job& job, const Room& room, const Threads& threads) const {
  if (!job.launch.sequences.empty()) clear_gradients(job.args);
  const BackwardJob backward{.plan = kernel_.plan,
                             .kernels = kernels_->many(),
                             .tables = job.tables,
                             .workers = *workers_,
                             .pool = *pages_,
                             .threads = threads,
                             .part = job.launch.part};
  InputGradients inputs = make_input_gradients(job.launch);
  KeyGradients owners;
  const auto run = [&](const Turn& turn) -> Status {
    if (turn.step.kernel != ir::Step::Kernel::attend) return run_turn(turn, threads);
    run_backward(backward, turn, owners, inputs);
    return done;
  };
  WEFT_CHECK(run_steps(job, room, {.run = run}));
  store_input_gradients(job.launch, inputs);
  return done;
}

Status CpuExecutor::run_turn(const Turn& turn, const Threads& threads) const {
  if (turn.step.kernel == ir::Step::Kernel::attend) return attend(turn, threads);
  if (kernel_.plan.lists[turn.number()].summarizes())
    summarize(turn, threads);
  else if (turn.step.part != ir::Step::Part::pool)  // fill_list pools, too
    fill_list(kernel_.plan, turn.number(), *turn.piece, *workers_, threads.count);
  return done;
}

void CpuExecutor::share(const Turn& turn, const Threads& threads, std::int64_t chunk, const Units& compute) const {
  std::atomic<std::int64_t> next{0};
  workers_->run(static_cast<int>(std::min<std::int64_t>(threads.count, turn.blocks)), [&](int slot) {
    weft_args mine = *turn.args;
    mine.scratch = threads.of(slot);
    for (auto begin = next.fetch_add(chunk); begin < turn.blocks; begin = next.fetch_add(chunk))
      compute(mine, begin, std::min(begin + chunk, turn.blocks));
  });
}

void CpuExecutor::summarize(const Turn& list, const Threads& threads) const {
  share(list, threads, 1, [&](weft_args& mine, std::int64_t unit, std::int64_t) {
    mine.phase = -1 - static_cast<std::int64_t>(list.number());
    mine.tile_end = list.args->tile_end + unit;
    cpu::run(kernels_->many(), mine);
  });
}

Status CpuExecutor::attend(const Turn& phase, const Threads& threads) const {
  WEFT_TRY(const auto* const kernels, kernels_->of(phase.step.text));
  // Small enough that the last ones even out, large enough that neighbours share keys in a thread's cache.
  const auto chunk = std::clamp<std::int64_t>(phase.blocks / (std::int64_t{threads.count} * 32), 1, 8);
  share(phase, threads, chunk, [&](weft_args& mine, std::int64_t begin, std::int64_t end) {
    mine.tile_begin = phase.args->tile_begin + begin;
    mine.tile_end = phase.args->tile_begin + end;
    cpu::run(*kernels, mine);
  });
  return done;
}

}  // namespace weft
