#include "runtime/engine/cpu_executor.h"

#include "codegen/cpu/emit.h"
#include "compiler/ir/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace weft {

namespace {

constexpr std::size_t kAlignment = ScratchPool::kAlignment;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <typename Pointer>
weft_view view_of(const View<Pointer>& view) {
  return {.data = const_cast<void*>(static_cast<const void*>(view.data)),
          .stride_b = view.stride[0],
          .stride_n = view.stride[1],
          .stride_h = view.stride[2]};
}

void set_inputs(weft_args& to, const std::vector<TensorView>& inputs) {
  for (std::size_t i = 0; i < inputs.size() && i < kWeftMostInputs; ++i) {
    to.inputs[i].data = inputs[i].data;
    std::copy(inputs[i].stride.begin(), inputs[i].stride.end(), to.inputs[i].strides);
    std::copy(inputs[i].extent.begin(), inputs[i].extent.end(), to.inputs[i].extents);
  }
}

weft_args argument_block(const ir::Plan& plan, const Launch& launch, const RunArgs& args) {
  const auto& shape = launch.shape;
  weft_args to = {};
  to.abi = kWeftArgsAbi;
  to.batch = shape.batch;
  to.n_q = shape.n_q;
  to.n_k = shape.n_k;
  to.heads = shape.heads;
  to.kv_heads = shape.kv_heads;
  to.q = view_of(args.q);
  to.k = view_of(args.k);
  to.v = view_of(args.v);
  to.o = view_of(args.out);
  to.lse = static_cast<float*>(args.lse.data);
  to.lse_stride_b = args.lse.stride[0];
  to.lse_stride_h = args.lse.stride[1];
  to.branch_lse = static_cast<float*>(args.branch_lse.data);
  to.branch_lse_stride = args.branch_lse.stride[0];
  to.branch_lse_stride_b = args.branch_lse.stride[1];
  to.branch_lse_stride_h = args.branch_lse.stride[2];
  to.offsets = args.offset.size() > 1 ? args.offset.data() : nullptr;
  to.offset = args.offset.empty() ? shape.n_k - shape.n_q : args.offset.front();
  to.scale = plan.scale.value_or(1 / std::sqrt(static_cast<double>(plan.bind.d)));
  to.seed = args.dropout_seed;
  set_inputs(to, launch.inputs);
  return to;
}

/// Row tiles of one (batch, head): the most of any, so that tile numbers are a plain product.
std::int64_t tiles_per_head(const ir::Phase& phase, const ir::PhaseTable& table, const ir::Shape& shape) {
  std::int64_t most = 0;
  const auto entries = shape.offset.size() > 1 ? shape.batch : 1;
  for (std::int64_t b = 0; b < entries; ++b) {
    const auto extent = ir::extent_of(shape, b, phase.stationary, nullptr);
    for (const auto& head : table.head) most = std::max(most, ir::tile_count(phase, head, extent));
  }
  return most;
}

}  // namespace

CpuExecutor::CpuExecutor(ir::Plan plan, Target target, std::shared_ptr<const object::LoadedObject> object,
                         Function function, std::shared_ptr<const Workers> workers)
    : plan_(std::move(plan)),
      target_(std::move(target)),
      object_(std::move(object)),
      function_(function),
      workers_(std::move(workers)) {}

Result<std::shared_ptr<const CpuExecutor::PerHeads>> CpuExecutor::per_heads(std::int64_t heads) const {
  {
    std::shared_lock lock(mutex_);
    if (const auto it = known_heads_.find(heads); it != known_heads_.end()) return it->second;
  }
  WEFT_TRY(auto tables, ir::make_tables(plan_, heads));
  auto made = std::make_shared<PerHeads>();
  made->image = codegen::make_image(plan_, tables);
  made->tables = std::move(tables);
  made->scratch =
      aligned(static_cast<std::size_t>(codegen::cpu::scratch_bytes(plan_, target_, made->image.most_terms)));
  std::unique_lock lock(mutex_);
  return known_heads_.emplace(heads, std::move(made)).first->second;
}

/// The threads' scratch, then the state that rows carry between phases.
Result<std::size_t> CpuExecutor::total_scratch(const PerHeads& per_heads, const RunShape& shape, int threads) const {
  std::size_t carry = 0, total = 0;
  const auto row = static_cast<std::size_t>(plan_.carry_bytes_per_row());
  if (__builtin_mul_overflow(static_cast<std::size_t>(shape.batch), static_cast<std::size_t>(shape.heads), &carry) ||
      __builtin_mul_overflow(carry, static_cast<std::size_t>(shape.n_q), &carry) ||
      __builtin_mul_overflow(carry, row, &carry) ||
      __builtin_add_overflow(per_heads.scratch * static_cast<std::size_t>(threads), carry, &total)) {
    return user_error("the state that rows carry between phases is larger than memory");
  }
  return total;
}

Result<std::size_t> CpuExecutor::workspace(const RunShape& shape, int threads) const {
  WEFT_TRY(const auto tables, per_heads(shape.heads));
  WEFT_TRY(const auto bytes, total_scratch(*tables, shape, threads > 0 ? threads : workers_->threads()));
  return bytes + kAlignment;  // the caller's buffer may start anywhere
}

Status CpuExecutor::run(const ir::Pattern&, const Launch& launch, const RunArgs& args) const {
  const auto& shape = launch.shape;
  WEFT_TRY(const auto tables, per_heads(shape.heads));
  const int threads = args.threads > 0 ? args.threads : workers_->threads();
  const RunShape sizes{
      .batch = shape.batch, .n_q = shape.n_q, .n_k = shape.n_k, .heads = shape.heads, .kv_heads = shape.kv_heads};
  WEFT_TRY(const auto bytes, total_scratch(*tables, sizes, threads));

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
  block.tables = tables->image.words.data();
  block.most_terms = tables->image.most_terms;
  auto* const first = static_cast<std::byte*>(scratch);
  block.carry = reinterpret_cast<float*>(first + tables->scratch * static_cast<std::size_t>(threads));
  for (std::size_t phase = 0; phase < plan_.phases.size(); ++phase) {
    run_phase(phase, *tables, launch, block, first, threads);
  }
  if (pooled.bytes) pool_.give_back(std::move(pooled));
  return done;
}

void CpuExecutor::run_phase(std::size_t phase, const PerHeads& per_heads, const Launch& launch, weft_args args,
                            std::byte* scratch, int threads) const {
  args.phase = static_cast<std::int64_t>(phase);
  args.tiles_per_head = tiles_per_head(plan_.phases[phase], per_heads.tables.phases[phase], launch.shape);
  const auto total = launch.shape.batch * launch.shape.heads * args.tiles_per_head;
  const auto slots = static_cast<int>(std::min<std::int64_t>(threads, total));
  // Small enough that the last ones even out, large enough that neighbours share keys in a thread's cache.
  const auto chunk = std::clamp<std::int64_t>(total / (std::int64_t{threads} * 32), 1, 8);
  std::atomic<std::int64_t> next{0};
  workers_->run(slots, [&](int slot) {
    weft_args mine = args;
    mine.scratch = scratch + per_heads.scratch * static_cast<std::size_t>(slot);
    for (auto begin = next.fetch_add(chunk); begin < total; begin = next.fetch_add(chunk)) {
      mine.tile_begin = begin;
      mine.tile_end = std::min(begin + chunk, total);
      function_(&mine);
    }
  });
}

}  // namespace weft
