#include "compiler/ir/key_chunks.h"
#include "compiler/ir/plan_words.h"
#include "laboratory/explain/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace weft::explain {

namespace {

/// Text that grows.
class Lines {
 public:
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void write(std::string_view text) { text_ += text; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string count(double value) {
  for (auto [unit, name] : {std::pair{1e12, "T"}, std::pair{1e9, "G"}, std::pair{1e6, "M"}, std::pair{1e3, "k"}}) {
    if (value >= unit) return fmt::format("{:.2f} {}", value / unit, name);
  }
  return fmt::format("{:.0f} ", value);
}

std::string order_of(const ir::RowMap& rows) {
  if (!rows.by.empty()) return fmt::format("rows grouped by {} dilated branches", rows.by.size());
  if (rows.modulus == 0) return "consecutive rows";
  if (rows.patch * rows.patch_lines == 1) return fmt::format("rows {} apart", rows.modulus);
  const auto lines = rows.patch_lines > 1 ? rows.patch_lines : rows.tile / rows.patch;
  const auto step = std::max(rows.step, rows.line_step);
  return fmt::format("patches of {} x {} rows{}", lines, rows.patch, step > 1 ? ", as far apart as the dilation" : "");
}

void print_plan(const ir::Plan& plan, Lines& to) {
  for (const auto& phase : plan.phases) {
    std::size_t ranges = 0;
    for (const auto& pass : phase.passes) ranges += pass.ranges.size();
    to.print("  {}: {} rows a tile, {}; {} softmax over {} key range{}, {}\n", ir::word(ir::kRoles, phase.role),
             phase.rows.tile, order_of(phase.rows),
             phase.passes.size() == 1 ? "one" : std::to_string(phase.passes.size()), ranges, ranges == 1 ? "" : "s",
             planner::scans(plan, phase) ? "scanned" : "bounded");
  }
  const auto& c = plan.choices;
  to.print("  tiles {} x {}, skipped when empty in {} x {}; registers {} keys x {} {}\n", c.tile_q, c.tile_k, c.sub_q,
           c.sub_k, c.micro_k, c.micro_q, c.kernel_class == ir::KernelClass::vector ? "vectors" : "rows a thread");
  for (const auto& reason : plan.reasons) to.print("  because {}\n", reason);
}

void print_backward(const ir::Shape& shape, const BackwardMemory& memory, Lines& to) {
  to.print("  five products of a block, where the forward has two; {}B of scratch a thread\n",
           count(static_cast<double>(memory.scratch_bytes)));
  const bool padded = memory.page_bytes != memory.page_keys * (shape.d + shape.d_v) * 4;
  to.print("  dK and dV: a unit of rows adds up what the keys that it touches get, in pages of {}B: {} keys x ",
           count(static_cast<double>(memory.page_bytes)), memory.page_keys);
  to.print("({} + {}{}) x 4 B\n", shape.d, shape.d_v, padded ? ", each to whole vectors" : "");
}

void print_compiled(const ir::Plan& plan, const Compiled& compiled, Lines& to) {
  if (!compiled.registers) return;
  const bool of_keys = plan.stationary() == ir::Stationary::key;
  to.print("  kernel{}: {} threads a block, {} registers a thread, {} bytes spilled, {} bytes of shared memory\n",
           !plan.bind.gradient ? ""
           : of_keys           ? " of dK and dV"
                               : " of dQ",
           plan.choices.threads, *compiled.registers, compiled.spill_bytes.value_or(0),
           compiled.shared_bytes.value_or(0));
  to.print("  {} blocks at once on an SM\n", compiled.blocks_per_sm);
  if (!compiled.machine_code) return;
  to.print("  machine code of the {} loop:\n", of_keys ? "query" : "key");
  to.write(to_text(*compiled.machine_code, launch_of(plan, compiled), "    "));
}

void print_prediction(const Prediction& predicted, Lines& to) {
  to.print("  predicted: {:.3f} ms, {:.3f} of the peak in useful work", predicted.ms, predicted.share_of_peak);
  if (!predicted.passes.empty()) to.print(", {:.3f} in all that is executed", predicted.executed_share);
  to.print(", from {}: {}\n", predicted.from, predicted.assumed);
  for (const auto& pass : predicted.passes) {
    to.print("    {}: {:.3f} ms", pass.of, pass.ms);
    if (pass.executed_share > 0)
      to.print(", {:.3f} of the peak executed, {:.3f} in full blocks, from {}", pass.executed_share, pass.loop_share,
               pass.from);
    to.print("\n");
  }
}

/// `pool 64, attend 2048 and merge 512 blocks of threads`; what comes again and again is counted.
std::string text_of(const std::vector<Rehearsed>& launches, bool on_gpu) {
  std::string out;
  for (std::size_t i = 0, again = 1; i < launches.size(); i += again) {
    const auto& [step, blocks] = launches[i];
    const auto same = [&](const Rehearsed& other) {
      return other.blocks == blocks && ir::print(other.step) == ir::print(step);
    };
    const auto end = std::find_if_not(launches.begin() + static_cast<std::ptrdiff_t>(i), launches.end(), same);
    again = static_cast<std::size_t>(end - launches.begin()) - i;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", ir::to_string(step), blocks);
    if (again > 1) out += fmt::format(" ({} times)", again);
  }
  return out + (on_gpu ? " blocks of threads" : " units of work");
}

}  // namespace

std::string to_text(const Explanation& what) {
  const auto& [planned, shape, load, kernels, predicted, backward, ring] = what;
  Lines to;
  to.print("{}{} on {}, {} queries, {} keys, {} heads, dim {}, {}\n", planned.bind.gradient ? "backward pass of " : "",
           planned.pattern.name, planned.target.name, shape.n_q, shape.n_k, shape.heads, shape.d,
           ir::to_string(planned.bind.dtype));
  const ir::Plan& plan = ir::plan_of(planned.plan, load.regime);
  print_plan(plan, to);
  if (backward) print_backward(shape, *backward, to);
  if (planned.plan.transposed) {
    to.print("  seven products in two passes; that of dK and dV, whose tiles hold keys:\n");
    print_plan(*planned.plan.transposed, to);
  }
  if (load.heads_per_tile > 1) to.print("  rows of {} heads, which share K and V, in one tile\n", load.heads_per_tile);
  if (const auto chunks = ir::key_chunks(planned.plan, shape, 0); chunks.count > 1)
    to.print("  keys cut into {} chunks of {}, which a second kernel merges\n", chunks.count, chunks.keys);
  print_compiled(plan, kernels[0], to);
  if (planned.plan.transposed) print_compiled(*planned.plan.transposed, kernels[1], to);
  if (load.inputs_missing) {
    to.print("  work: depends on inputs; give them with --input name=X.npy\n");
  } else {
    to.print("  work: {}pairs kept (density {:.4f}), {}FLOP useful, {}FLOP executed ({:.2f} times){}\n",
             count(load.work.pairs), load.density, count(load.flops), count(load.executed_flops),
             load.flops > 0 ? load.executed_flops / load.flops : 0,
             load.work.sampled ? ", estimated from a sample of the tiles" : "");
    to.print("  tiles: {:.0f} full, {:.0f} partial, {:.0f} empty (never visited)\n", load.work.full_tiles,
             load.work.partial_tiles, load.work.empty_tiles);
    if (planned.plan.transposed) {
      to.print("  pairs computed over kept: {:.2f} by query, {:.2f} by key\n",
               load.work.pairs > 0 ? load.work.executed / load.work.pairs : 0,
               load.work.pairs > 0 ? load.transposed.executed / load.work.pairs : 0);
    }
    if (predicted) print_prediction(*predicted, to);
  }
  if (ring) to.write(to_text(*ring));
  to.print("  a launch runs: {}\n", text_of(load.launches, planned.target.kind == TargetKind::cuda));
  to.print("  memory: {}B of tensors, {} B a row carried between phases", count(load.bytes),
           planned.plan.carry_bytes_per_row());
  if (planned.plan.transposed) to.print(", {} B a key", planned.plan.transposed->carry_bytes_per_row());
  to.print("; planned in {:.0f} us\n", load.plan_us);
  return to.take();
}

}  // namespace weft::explain
