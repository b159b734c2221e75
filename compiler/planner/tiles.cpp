#include "compiler/ir/predicates.h"
#include "compiler/planner/passes.h"
#include "compiler/walk/block_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace weft::planner {
namespace {

bool may_multiply_pairs(const Draft& draft) {
  return draft.plan.bind.dtype == ir::DType::bf16 && draft.target.has_bf16_dot() && !draft.plan.bind.gradient;
}

/// Keys × vectors of a full block's register tile: what fits beside the broadcasts and loads. Measured
/// on AVX-512 (docs/how-the-cpu-kernel-works.md): 4 × 4 leads; 16 registers hold 4 × 2.
ir::Choices for_cpu(Draft& draft) {
  const Target& target = draft.target;
  ir::Choices c;
  c.sub_q = std::max(4, target.lanes());
  c.micro_k = 4;
  c.micro_q = target.vector_registers >= 32 ? 4 : 2;
  c.sub_k = target.vector_registers >= 32 ? 8 : 4;
  c.tile_k = target.vector_registers >= 32 ? 128 : 64;
  // Of gradients P and dS stand beside K, V, dK and dV of the block.
  if (draft.plan.bind.gradient) c.tile_k = 64;
  // Few queries: columns have to fill vectors.
  const ir::Bind& bind = draft.plan.bind;
  if (!bind.gradient && bind.d % c.sub_q == 0 && bind.d_v % c.sub_q == 0) c.few_q = 4;
  if (!may_multiply_pairs(draft)) return c;
  c.products = target.bf16_dot_pays() ? 2 : 1;
  draft.plan.reasons.push_back(fmt::format("bf16 {}: vdpbf16ps does {:.1f} times the products of f32, {}",
                                           c.products == 2 ? "in pairs" : "widened to f32", target.bf16_dot_rate,
                                           target.bf16_dot_measured ? "measured here" : "by the table of targets"));
  return c;
}

/// Do counts of branches, a walk over several softmaxes, or conditions want registers beside the sums?
bool takes_registers(const Draft& draft) {
  const ir::Plan& plan = draft.plan;
  const bool several = plan.branches > 1 && (ir::per_branch(plan.combine) || plan.bind.branch_lse);
  return several || counts_branches(draft.pattern) || !plan.predicates.empty();
}

/// 128 rows by 4 warps; above 128 columns of V two warps share 32 rows, as one could not hold their O. As many keys of
/// S beside O as registers hold: 8 or 4 a thread.
ir::Choices for_plain_lanes(const ir::Plan& plan) {
  const ir::Bind& bind = plan.bind;
  const bool sums = plan.branches > 1 && (plan.combine == ir::Combine::sum || plan.combine == ir::Combine::mean ||
                                          bind.branch_lse);  // of softmaxes, beside the one at hand
  ir::Choices c;
  c.kernel_class = ir::KernelClass::simt;
  c.threads = 128;
  const int column_warps = bind.d_v > 128 ? 2 : 1;
  const std::int64_t columns = (bind.d_v + 7) / 8 * (sums ? 2 : 1);  // of a thread
  c.tile_q = 128 / column_warps;
  c.micro_q = 8;
  c.micro_k = column_warps == 1 && columns <= 12 ? 8 : 4;
  c.tile_k = 8 * column_warps * c.micro_k;
  c.sub_q = 32;
  c.sub_k = c.tile_k;
  // 16 columns hide more of what comes next; beside several softmaxes they take too many registers.
  const bool wide = bind.d_v > 96 && column_warps == 1 && !sums;
  c.depth = wide ? 16 : 8;
  c.staged = bind.d_v <= 64 ? 16 : 8;  // at least one load of 4 columns a thread
  return c;
}

/// Of gradients. A thread has 8 x 4 of S and of dP, and what 8 rows sum up: dQ, or dK and dV. 128 numbers of those fit
/// beside; where there are more, two or four warps share rows.
ir::Choices gradients_on_plain_lanes(const Draft& draft) {
  const ir::Bind& bind = draft.plan.bind;
  const bool of_keys = draft.options.stationary == ir::Stationary::key;
  const std::int64_t sums = of_keys ? 2 * std::max(bind.d, bind.d_v) : bind.d;
  ir::Choices c;
  c.kernel_class = ir::KernelClass::simt;
  c.threads = 128;
  const int column_warps = sums <= 128 ? 1 : sums <= 256 ? 2 : 4;
  c.tile_q = 128 / column_warps;
  c.micro_q = 8;
  c.micro_k = 4;
  c.tile_k = c.sub_k = 32 * column_warps;
  c.sub_q = 32;
  // Of f32 a chunk takes twice the registers; of 16 columns dK and dV would spill.
  const bool is_short = of_keys && bind.dtype == ir::DType::f32;
  c.depth = bind.d % 16 == 0 && bind.d_v % 16 == 0 && !is_short ? 16 : 8;
  c.staged = sums <= 64 * (of_keys ? 2 : 1) ? 16 : 8;
  return c;
}

bool has_matrix_instructions(const Target& target, ir::DType dtype) {
  return dtype == ir::DType::f16 ? target.has_mma : dtype == ir::DType::bf16 && target.has_bf16_mma;
}

/// Are keys of full zones known by number, without a list? See codegen/cuda/device/mma_attend.cuh.
bool has_runs(const ir::Plan& plan) { return !plan.bind.paged && plan.dropout == 0; }

/// Do conditions on pairs say the same of 64 rows, and not of 128; where there are none, does all that is said of rows?
/// To a tile of them conditions are filters of keys, and no pair is masked: bigbird's instructions a product fall from
/// 25 to 18 (sm_80, d 64, blocks of 64), where full blocks of dense tiles take 9 instead of 7. Of long runs of rows few
/// tiles have a border.
bool says_the_same_of_64(const Draft& draft) {
  constexpr auto kRows = ir::Stationary::query;
  const std::int64_t of_pairs = ir::row_unit(draft.plan, kRows);
  const std::int64_t unit = of_pairs != 0 ? of_pairs : ir::unit_of_rows(draft.plan, draft.ranges, kRows);
  return unit % 64 == 0 && unit % 128 != 0 && unit < 256;
}

/// As many rows and keys as two blocks of threads leave room for on an SM, in registers and in shared memory: one
/// computes while the other waits. A warp has two tiles of 16 rows where its registers hold them, because both use
/// the same loads of K and V.
ir::Choices for_matrices(const Draft& draft, std::string& reason) {
  const ir::Bind& bind = draft.plan.bind;
  ir::Choices c;
  c.kernel_class = ir::KernelClass::mma;
  c.threads = 128;
  c.sub_q = 16;
  const auto fits = [&](int blocks, int rows, int keys, int stages = 1) {
    return matrices_fit(draft, {.blocks = blocks, .rows = rows, .keys = keys, .stages = stages});
  };
  int on_an_sm = 0;
  const auto choose = [&](int blocks, int rows, int most, int least) {
    for (int keys = most; keys >= least; keys -= 16) {
      if (!fits(blocks, rows, keys)) continue;
      c.micro_q = rows / 64;
      c.tile_q = rows;
      c.tile_k = c.sub_k = c.micro_k = keys;
      on_an_sm = blocks;
      return true;
    }
    return false;
  };
  // Two tiles of O fill half of the registers at 128 columns. Counts of branches and conditions take some of the rest,
  // the walk over several softmaxes more.
  const std::int64_t columns = std::max(bind.d, bind.d_v);
  const bool several = draft.plan.combine == ir::Combine::sum || draft.plan.combine == ir::Combine::mean;
  const bool says_more = takes_registers(draft);
  // Without asynchronous copies rows of K and V wait in registers.
  const int most_of_one = several && !draft.target.has_async_copy ? 32 : 64;
  const bool fill = columns > 128 || (several && columns > 64) || says_the_same_of_64(draft);
  const int most_of_two = says_more && columns > 64 ? 48 : 64;  // tiles of 16 rows a warp
  (!fill && choose(2, 128, most_of_two, 48)) || choose(2, 64, 64, 32) || choose(1, 64, most_of_one, 16);
  // Measured on an H100: two stages make long runs faster, a third block of threads whatever else is waited for.
  if (c.tile_q == 64 && columns <= 128 && !several && fits(3, c.tile_q, c.tile_k)) c.resident = on_an_sm = 3;
  // Two tiles of 16 rows a warp are worth two warps of four, where as many more blocks of threads find room.
  constexpr int kBlocksOfTwoWarps = 4;
  const int keys_of_two = std::min(c.tile_k, most_of_two);
  if (c.resident == 3 && fits(kBlocksOfTwoWarps, c.tile_q, keys_of_two)) {
    c.threads = 64;
    c.micro_q = 2;
    c.tile_k = c.sub_k = c.micro_k = keys_of_two;
    c.resident = on_an_sm = kBlocksOfTwoWarps;
  }
  const bool twice = draft.target.has_async_copy && has_runs(draft.plan) && c.micro_q == 2;
  if (twice && fits(c.resident, c.tile_q, c.tile_k, 2)) c.stages = 2;
  reason = fmt::format("matrix instructions for {}: {} x {} a block of {} threads, {} on an SM",
                       bind.dtype == ir::DType::f16 ? "f16" : "bf16", c.tile_q, c.tile_k, c.threads, on_an_sm);
  return c;
}

/// Of gradients. A warp holds S and dP, and what its rows sum up, dQ, or dK and dV: up to 128 numbers a thread of that
/// beside up to 64 of the others. Where dK and dV are more, plain lanes share rows among warps. Warp instructions for
/// each HMMA decided between the sizes (docs/how-the-gpu-gradients-work.md).
std::optional<ir::Choices> gradients_by_matrices(const Draft& draft, std::string& reason) {
  const ir::Bind& bind = draft.plan.bind;
  const bool of_keys = draft.options.stationary == ir::Stationary::key;
  const std::int64_t sums = of_keys ? bind.d + bind.d_v : bind.d;  // columns
  if (sums > 256) return std::nullopt;
  ir::Choices c;
  c.kernel_class = ir::KernelClass::mma;
  c.threads = 128;
  c.sub_q = 16;
  struct Size {
    int rows, keys;
  };
  // Counts of branches and conditions take registers, too.
  const bool says_more = takes_registers(draft);
  std::vector<Size> sizes;
  if (!of_keys && sums <= 64 && !says_more) sizes.push_back({128, 48});
  const bool spills = of_keys && draft.target.sm == 80;  // 20 bytes, where sm_90 spills nothing
  if (sums > 64 && sums <= 128 && !says_more && !spills) sizes.push_back({128, 32});
  if (sums <= 128) sizes.push_back({64, 64});
  if (sums > 128 && !says_more) sizes.push_back({64, 48});
  // Without asynchronous copies rows of keys wait in registers; deltas of several softmaxes are found by a loop more.
  const bool several = draft.plan.combine == ir::Combine::sum || draft.plan.combine == ir::Combine::mean ||
                       draft.plan.combine == ir::Combine::joint_detached;
  const bool tight = several || !draft.target.has_async_copy;
  const int most_keys = !tight ? 64 : of_keys && sums > 128 ? 16 : 32;
  const auto choose = [&](int blocks, int tile, int keys, int stages) {
    if (!matrices_fit(draft, {.blocks = blocks, .rows = tile, .keys = keys, .stages = stages})) return false;
    c.micro_q = tile / 64;
    c.tile_q = tile;
    c.tile_k = c.sub_k = c.micro_k = keys;
    c.stages = stages;
    c.resident = blocks;
    reason = fmt::format("matrix instructions for {}: {} x {} a block of threads, {} on an SM",
                         bind.dtype == ir::DType::f16 ? "f16" : "bf16", tile, keys, blocks);
    return true;
  };
  const int twice = draft.target.has_async_copy ? 2 : 1;
  for (const int blocks : {2, 1}) {
    for (const auto& all : {sizes, std::vector<Size>{{64, 32}, {64, 16}}}) {
      for (const Size& size : all) {
        for (int stages = twice; stages > 0 && size.keys <= most_keys; --stages) {
          if (of_keys && size.keys > 32 && stages == 1) continue;  // it spills
          if (choose(blocks, size.rows, size.keys, stages)) return c;
        }
      }
    }
  }
  return std::nullopt;
}

ir::Choices for_gradient(Draft& draft) {
  if (has_matrix_instructions(draft.target, draft.plan.bind.dtype) && !draft.options.of_inputs) {
    std::string reason;
    if (const auto c = gradients_by_matrices(draft, reason)) {
      draft.plan.reasons.push_back(std::move(reason));
      return *c;
    }
  }
  return gradients_on_plain_lanes(draft);
}

ir::Choices for_gpu(Draft& draft) {
  const ir::Bind& bind = draft.plan.bind;
  if (bind.gradient) return for_gradient(draft);
  if (!has_matrix_instructions(draft.target, bind.dtype)) {
    if (draft.target.has_mma && bind.dtype != ir::DType::f32)
      draft.plan.reasons.push_back(
          fmt::format("plain lanes: {} has no matrix instructions for bf16", draft.target.name));
    return for_plain_lanes(draft.plan);
  }
  std::string reason;
  ir::Choices c = for_matrices(draft, reason);
  draft.plan.reasons.push_back(std::move(reason));
  return c;
}

/// Where few rows have many keys: enough that a chunk's products outweigh finding its keys and merging its rows.
constexpr int kLeastKeysOfChunk = 256;
/// By schedule; hardly any launch has two of them.
constexpr int kMostKeysOfChunk = 1 << 20;
/// A chunk's state is written and read once for each row; more rows want more keys to be worth it.
constexpr int kFewRows = 16, kKeysForMoreRows = 8;
/// More row tiles than that are work for a GPU as they are, with a few heads.
constexpr int kMostTilesToCut = 2;
/// With 8 heads that is four blocks of threads for each of 128 SMs; of more rows fewer states are kept.
constexpr std::int64_t kMostChunks = 64, kMostOfMoreRows = 32;

/// Instructions of four warps, which read operands in shared memory. Measured on an H100 they are slower than those of
/// one warp (docs/how-the-cuda-kernel-works.md), so that only a schedule asks for them.
bool may_multiply_in_groups(const Draft& draft) {
  const ir::Choices& c = draft.plan.choices;
  return draft.target.has_wgmma && c.kernel_class == ir::KernelClass::mma;
}

struct Key {
  const char* name;
  int* value;
  int least, most, multiple;
  bool has_meaning = true;  ///< on the target
};

}  // namespace

bool matrices_fit(const Draft& draft, const MatrixTile& tile) {
  const ir::Bind& bind = draft.plan.bind;
  constexpr std::int64_t kLists = 5 << 10, kReserved = 1 << 10;  // of each block, by the driver
  const walk::BlockShape shape = {.rows = tile.rows,
                                  .keys = tile.keys,
                                  .threads = tile.threads,
                                  .dim = static_cast<int>(bind.d),
                                  .dim_v = static_cast<int>(bind.d_v),
                                  .summed = static_cast<int>(bind.d_v),
                                  .gradient = bind.gradient,
                                  .stages = tile.stages};
  const std::int64_t all = std::max(shape.staged_bytes(), shape.handed_bytes()) + kLists;
  return all <= draft.target.shared_per_block && tile.blocks * (all + kReserved) <= draft.target.shared_per_sm;
}

void choose_tiles(Draft& draft) {
  ir::Choices& c = draft.plan.choices;
  const bool is_gpu = draft.target.kind == TargetKind::cuda;
  c = is_gpu ? for_gpu(draft) : for_cpu(draft);
  const bool cuts = is_gpu && !draft.plan.bind.gradient;
  if (cuts) draft.chunk_k = (kLeastKeysOfChunk + c.tile_k - 1) / c.tile_k * c.tile_k;
  const int step = is_gpu ? c.tile_q : c.sub_q * c.micro_q;
  const Key keys[] = {{"tile_q", &c.tile_q, step, is_gpu ? step : 256, step},
                      {"tile_k", &c.tile_k, is_gpu ? c.tile_k : 16, is_gpu ? c.tile_k : 256, 16},
                      {"products", &c.products, 1, 2, 1, may_multiply_pairs(draft)},
                      {"stages", &c.stages, 1, c.stages, 1, c.stages > 1},
                      {"groups", &c.groups, 0, draft.plan.bind.gradient ? 0 : 1, 1, may_multiply_in_groups(draft)},
                      {"chunk", &draft.chunk_k, c.tile_k, kMostKeysOfChunk, c.tile_k, cuts}};
  for (const auto& hint : draft.pattern.schedule) {
    const auto at = std::find_if(std::begin(keys), std::end(keys), [&](const Key& k) { return hint.key == k.name; });
    if (at == std::end(keys) || !at->has_meaning) {
      // `stages` and the like say something to other targets.
      draft.plan.reasons.push_back(fmt::format("schedule {}: has no meaning for {}", hint.key, draft.target.name));
      continue;
    }
    const bool possible = hint.value >= at->least && hint.value <= at->most && hint.value % at->multiple == 0;
    if (!possible && is_gpu && draft.plan.bind.gradient) {
      draft.plan.reasons.push_back(fmt::format("schedule {}: of the forward pass", hint.key));
      continue;
    }
    if (!possible) {
      if (hint.tuned) {  // a note of the store: nobody asked for it
        draft.plan.reasons.push_back(fmt::format("{} {}: kept by weft tune, and impossible", hint.key, hint.value));
        continue;
      }
      draft.diagnostics.push_back(
          {.code = "E0407",
           .range = hint.range,
           .message = fmt::format("{} {} is impossible on {}", hint.key, hint.value, draft.target.name),
           .label = fmt::format("from {} to {} in steps of {}", at->least, at->most, at->multiple)});
      continue;
    }
    *at->value = static_cast<int>(hint.value);
    draft.plan.reasons.push_back(
        fmt::format("{} {}: {}", hint.key, hint.value, hint.tuned ? "found by weft tune" : "asked for by schedule"));
  }
  // Groups need no registers for operands: a third block of threads finds room.
  if (c.groups != 0 && std::max(draft.plan.bind.d, draft.plan.bind.d_v) <= 64) c.resident = 3;
}

void cut_keys(Draft& draft) {
  ir::Plan& plan = draft.plan;
  if (draft.chunk_k == 0 || plan.phases.size() != 1) return;
  const std::int64_t most = std::min(kMostChunks, ir::kMostShares / std::ssize(plan.phases.front().passes));
  if (most < 2) return;
  const std::int64_t all = std::int64_t{kMostTilesToCut} * plan.choices.tile_q;
  plan.cuts = {
      {.rows = kFewRows, .keys = draft.chunk_k, .most = most},
      {.rows = all, .keys = std::int64_t{kKeysForMoreRows} * draft.chunk_k, .most = std::min(kMostOfMoreRows, most)}};
}

void order_tiles(Draft& draft) {
  // With a row bound on the far side, later rows see more of y; in every other pattern the order is
  // indifferent, and walking backwards costs nothing.
  for (auto& phase : draft.plan.phases) {
    bool grows = true;
    for (const auto& pass : phase.passes) {
      for (const auto& range : pass.ranges) {
        const bool from_row = std::any_of(range.lo.begin(), range.lo.end(),
                                          [](const ir::Bound& e) { return e.kind == ir::Bound::Kind::row; });
        const bool to_row = std::any_of(range.hi.begin(), range.hi.end(),
                                        [](const ir::Bound& e) { return e.kind == ir::Bound::Kind::row; });
        if (from_row && !to_row) grows = false;
      }
    }
    phase.rows.longest_first = grows;
  }
}

}  // namespace weft::planner
