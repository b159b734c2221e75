#include "codegen/cuda/emit.h"
#include "compiler/ir/key_chunks.h"
#include "compiler/ir/launchable.h"
#include "compiler/ir/plan_words.h"
#include "runtime/engine/launch_checks.h"
#include "runtime/engine/reference.h"
#include "tools/commands/commands.h"
#include "tools/compiled.h"
#include "tools/json.h"
#include "tools/operands.h"
#include "tools/pattern_file.h"
#include "tools/prediction.h"
#include "tools/products.h"
#include "tools/progress.h"
#include "tools/ring_report.h"
#include "tools/workload.h"

#include <algorithm>

namespace weft::tools {

namespace {

constexpr std::int64_t kTokens = 4096;  // where neither the pattern nor the user says
ir::Shape shape_to_explain(const Options& options, const ir::Pattern& pattern, const Sizes& sizes,
                           const Console& console) {
  std::int64_t tokens = kTokens;
  if (!options.tokens.empty())
    tokens = options.tokens[0];
  else if (pattern.tokens.kind == ir::Tokens::Kind::exact)
    tokens = pattern.tokens.count;
  else if (!pattern.grid.empty())
    tokens = ir::Tensor::count(pattern.grid);
  else
    console.remark("--tokens not given, taken as {}", tokens);
  return {.batch = sizes.batch,
          .n_q = tokens,
          .n_k = options.keys.value_or(tokens),
          .heads = sizes.heads,
          .kv_heads = sizes.kv_heads,
          .d = sizes.dim,
          .d_v = sizes.dim_v};
}

/// Inputs that bounds read, where any was given.
Result<std::vector<ir::Tensor>> inputs_to_count(const Options& options, const ir::Pattern& pattern,
                                                const ir::Shape& shape) {
  std::vector<ir::Tensor> tensors;
  if (options.inputs.empty()) return tensors;
  Operands operands;  // of which the extents are asked for, and no values
  operands.q.shape = {shape.batch, shape.n_q, shape.heads, shape.d};
  operands.k.shape = {shape.batch, shape.n_k, shape.kv_heads, shape.d};
  operands.v.shape = {shape.batch, shape.n_k, shape.kv_heads, shape.d_v};
  WEFT_CHECK(add_inputs(operands, options, pattern));
  for (const auto& array : operands.inputs) tensors.push_back(to_f64(array.view()));
  return tensors;
}

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
  return fmt::format("patches of {} x {} of the grid{}", lines, rows.patch,
                     step > 1 ? ", as far apart as the dilation" : "");
}

void print_plan(const ir::Plan& plan, const Console& console) {
  for (const auto& phase : plan.phases) {
    std::size_t ranges = 0;
    for (const auto& pass : phase.passes) ranges += pass.ranges.size();
    console.print("  {}: {} rows a tile, {}; {} softmax over {} key range{}, {}\n", ir::word(ir::kRoles, phase.role),
                  phase.rows.tile, order_of(phase.rows),
                  phase.passes.size() == 1 ? "one" : std::to_string(phase.passes.size()), ranges,
                  ranges == 1 ? "" : "s", planner::scans(plan, phase) ? "scanned" : "bounded");
  }
  const auto& c = plan.choices;
  console.print("  tiles {} x {}, skipped when empty in {} x {}; registers {} keys x {} {}\n", c.tile_q, c.tile_k,
                c.sub_q, c.sub_k, c.micro_k, c.micro_q,
                c.kernel_class == ir::KernelClass::vector ? "vectors" : "rows a thread");
  for (const auto& reason : plan.reasons) console.print("  because {}\n", reason);
}

void print_backward(const ir::Shape& shape, const BackwardMemory& memory, const Console& console) {
  console.print("  five products of a block, where the forward has two; {}B of scratch a thread\n",
                count(static_cast<double>(memory.scratch_bytes)));
  const bool padded = memory.page_bytes != memory.page_keys * (shape.d + shape.d_v) * 4;
  console.print("  dK and dV: a unit of rows adds up what the keys that it touches get, in pages of {}B: {} keys x ",
                count(static_cast<double>(memory.page_bytes)), memory.page_keys);
  console.print("({} + {}{}) x 4 B\n", shape.d, shape.d_v, padded ? ", each to whole vectors" : "");
}

void print_compiled(const ir::Plan& plan, const Compiled& compiled, const Console& console) {
  if (!compiled.registers) return;
  const bool of_keys = plan.stationary() == ir::Stationary::key;
  console.print("  kernel{}: {} threads a block, {} registers a thread, {} bytes spilled, {} bytes of shared memory\n",
                !plan.bind.gradient ? ""
                : of_keys           ? " of dK and dV"
                                    : " of dQ",
                plan.choices.threads, *compiled.registers, compiled.spill_bytes.value_or(0),
                compiled.shared_bytes.value_or(0));
  console.print("  {} blocks at once on an SM\n", compiled.blocks_per_sm);
  if (!compiled.machine_code) return;
  console.print("  machine code of the {} loop:\n", of_keys ? "query" : "key");
  console.write(to_text(*compiled.machine_code, launch_of(plan, compiled), "    "));
}

void print_prediction(const Prediction& predicted, const Console& console) {
  console.print("  predicted: {:.3f} ms, {:.3f} of the peak in useful work", predicted.ms, predicted.share_of_peak);
  if (!predicted.passes.empty()) console.print(", {:.3f} in all that is executed", predicted.executed_share);
  console.print(", from {}: {}\n", predicted.from, predicted.assumed);
  for (const auto& pass : predicted.passes) {
    console.print("    {}: {:.3f} ms", pass.of, pass.ms);
    if (pass.executed_share > 0)
      console.print(", {:.3f} of the peak executed, {:.3f} in full blocks, from {}", pass.executed_share,
                    pass.loop_share, pass.from);
    console.print("\n");
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

Json json_of(const std::vector<Rehearsed>& launches) {
  Json out = Json::array();
  for (const auto& [step, blocks] : launches) {
    out.push_back(
        {{"does", ir::to_string(step)}, {"number", step.number}, {"blocks", blocks}, {"threads", step.threads}});
  }
  return out;
}

/// What explain says of.
struct Explained {
  const PatternFile& file;
  const Planned& planned;
  ir::Shape shape;
  Workload load = {};
  std::vector<Compiled> kernels = {};        ///< one, and of gradients on GPUs that of dK and dV
  std::optional<Prediction> predicted = {};  ///< none of gradients on CPUs
  std::optional<BackwardMemory> backward = {};
  std::optional<RingReport> ring = {};  ///< where one is asked for
};

void print_text(const Explained& what, const Console& console) {
  const auto& [file, planned, shape, load, kernels, predicted, backward, ring] = what;
  console.print("{}{} on {}, {} queries, {} keys, {} heads, dim {}, {}\n",
                planned.bind.gradient ? "backward pass of " : "", file.pattern.name, planned.target.name, shape.n_q,
                shape.n_k, shape.heads, shape.d, ir::to_string(planned.bind.dtype));
  print_plan(planned.plan, console);
  if (backward) print_backward(shape, *backward, console);
  if (planned.plan.transposed) {
    console.print("  seven products in two passes; that of dK and dV, whose tiles hold keys:\n");
    print_plan(*planned.plan.transposed, console);
  }
  if (load.heads_per_tile > 1)
    console.print("  rows of {} heads, which share K and V, in one tile\n", load.heads_per_tile);
  if (const auto chunks = ir::key_chunks(planned.plan, shape, 0); chunks.count > 1)
    console.print("  keys cut into {} chunks of {}, which a second kernel merges\n", chunks.count, chunks.keys);
  print_compiled(planned.plan, kernels[0], console);
  if (planned.plan.transposed) print_compiled(*planned.plan.transposed, kernels[1], console);
  if (load.inputs_missing) {
    console.print("  work: depends on inputs; give them with --input name=X.npy\n");
  } else {
    console.print("  work: {}pairs kept (density {:.4f}), {}FLOP useful, {}FLOP executed ({:.2f} times){}\n",
                  count(load.work.pairs), load.density, count(load.flops), count(load.executed_flops),
                  load.flops > 0 ? load.executed_flops / load.flops : 0,
                  load.work.sampled ? ", estimated from a sample of the tiles" : "");
    console.print("  tiles: {:.0f} full, {:.0f} partial, {:.0f} empty (never visited)\n", load.work.full_tiles,
                  load.work.partial_tiles, load.work.empty_tiles);
    if (planned.plan.transposed) {
      console.print("  pairs computed over kept: {:.2f} by query, {:.2f} by key\n",
                    load.work.pairs > 0 ? load.work.executed / load.work.pairs : 0,
                    load.work.pairs > 0 ? load.transposed.executed / load.work.pairs : 0);
    }
    if (predicted) print_prediction(*predicted, console);
  }
  if (ring) console.write(to_text(*ring));
  console.print("  a launch runs: {}\n", text_of(load.launches, planned.target.kind == TargetKind::cuda));
  console.print("  memory: {}B of tensors, {} B a row carried between phases; planned in {:.0f} us\n",
                count(load.bytes), planned.plan.carry_bytes_per_row(), load.plan_us);
}

/// `scanned` where a phase looks at keys one by one.
const char* keys_of(const ir::Plan& plan) {
  const bool any = std::any_of(plan.phases.begin(), plan.phases.end(),
                               [&](const ir::Phase& phase) { return planner::scans(plan, phase); });
  return any ? "scanned" : "bounded";
}

Json kernel_json(const Compiled& compiled) {
  return {{"registers", or_null(compiled.registers)},
          {"spill_bytes", or_null(compiled.spill_bytes)},
          {"shared_bytes", or_null(compiled.shared_bytes)},
          {"blocks_per_sm", compiled.blocks_per_sm > 0 ? Json(compiled.blocks_per_sm) : Json(nullptr)},
          {"machine_code", to_json(compiled.machine_code)}};
}

Json prediction_json(const std::optional<Prediction>& predicted, bool known) {
  if (!predicted) return nullptr;
  return {{"ms", known ? Json(predicted->ms) : Json(nullptr)},
          {"from", predicted->from},
          {"share_of_peak", known ? Json(predicted->share_of_peak) : Json(nullptr)},
          {"executed_share", known ? Json(predicted->executed_share) : Json(nullptr)},
          {"loop_share", predicted->loop_share},
          {"assumed", predicted->assumed}};
}

/// A pass of gradients on a GPU: what it has a time of its own for, and the kernel where it computes pairs.
Json pass_json(const Prediction::Pass& pass, const Compiled* compiled, bool known) {
  Json out{{"of", pass.of}, {"ms", known ? Json(pass.ms) : Json(nullptr)}, {"from", pass.from}};
  if (compiled == nullptr) return out;
  out["executed_share"] = known ? Json(pass.executed_share) : Json(nullptr);
  out["loop_share"] = pass.loop_share;
  out["kernel"] = kernel_json(*compiled);
  return out;
}

Json backward_json(const Explained& what) {
  const auto& load = what.load;
  if (what.planned.plan.transposed) {
    Json passes = Json::array();
    const auto& predicted = what.predicted->passes;
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      passes.push_back(pass_json(predicted[i], i > 0 ? &what.kernels[i - 1] : nullptr, !load.inputs_missing));
    }
    const double pairs = load.work.pairs;
    return {{"products", 7},
            {"executed_by_query", pairs > 0 ? Json(load.work.executed / pairs) : Json(nullptr)},
            {"executed_by_key", pairs > 0 ? Json(load.transposed.executed / pairs) : Json(nullptr)},
            {"passes", std::move(passes)}};
  }
  if (!what.backward) return nullptr;
  return {{"products", 5},
          {"scratch_bytes", what.backward->scratch_bytes},
          {"page_keys", what.backward->page_keys},
          {"page_bytes", what.backward->page_bytes}};
}

void print_json(const Explained& what, const Console& console) {
  const auto& [file, planned, shape, load, kernels, predicted, backward, ring] = what;
  const auto known = [&](double value) { return what.load.inputs_missing ? Json(nullptr) : Json(value); };
  const bool is_bf16 = planned.bind.dtype == ir::DType::bf16;
  Json out{{"pattern", file.pattern.name}, {"target", planned.target.name}};
  out.update(sizes_json(shape));
  out.update({{"dtype", ir::to_string(planned.bind.dtype)},
              {"pairs", known(load.work.pairs)},
              {"density", known(load.density)},
              {"counted", load.inputs_missing ? Json(nullptr) : Json(load.work.sampled ? "sample" : "all")},
              {"tiles",
               {{"empty", known(load.work.empty_tiles)},
                {"partial", known(load.work.partial_tiles)},
                {"full", known(load.work.full_tiles)}}},
              {"flops", known(load.flops)},
              {"executed_flops", known(load.executed_flops)},
              {"bytes", load.bytes},
              {"plan_us", load.plan_us},
              {"predicted", prediction_json(predicted, !load.inputs_missing)},
              {"backward", backward_json(what)},
              {"keys", keys_of(planned.plan)},
              {"key_chunks", ir::key_chunks(planned.plan, shape, 0).count},
              {"heads_per_tile", load.heads_per_tile},
              {"launches", json_of(load.launches)},
              {"phases", planned.plan.phases.size()},
              {"bf16", is_bf16 ? json_of_products(planned.target, planned.plan.choices.products) : Json(nullptr)},
              {"ring", ring ? to_json(*ring) : Json(nullptr)},
              {"reasons", planned.plan.reasons}});
  out.update(kernel_json(kernels[0]));
  console.print("{}\n", json_text(out));
}

}  // namespace

int command_explain(const Options& options, const Console& console) {
  if (!options.ring.empty() && options.gradient)
    return console.usage("--ring and --grad do not go together in this version");
  const auto [file, status] = open_pattern(options, console);
  if (!file) return status;
  const auto planned = plan_file(*file, options, console);
  if (!planned) return console.fail(planned.error(), &file->source);
  Options quiet = options;
  quiet.quiet = true;  // plan_file has said the defaults already
  const auto sizes = default_sizes(options, file->pattern, Console(quiet));
  const auto shape = shape_to_explain(options, file->pattern, sizes, console);
  if (auto sizes_fit = check_sizes(file->pattern, shape); !sizes_fit) return console.fail(sizes_fit.error());
  if (auto means = ir::check_meaning(file->pattern, shape); !means) return console.fail(means.error());
  const auto inputs = inputs_to_count(options, file->pattern, shape);
  if (!inputs) return console.fail(inputs.error());
  Explained what{.file = *file, .planned = *planned, .shape = shape};
  auto load = [&] {
    const Progress progress(console, fmt::format("counting the pairs of {}", file->pattern.name));
    return workload_of(*planned, shape, *inputs);
  }();
  if (!load) return console.fail(load.error());
  what.load = std::move(*load);
  const auto split = ring_of(options, file->pattern);
  if (!split) return console.fail(split.error());
  if (*split && !what.load.inputs_missing) {
    auto ring = ring_report(*planned, shape, *inputs, **split);
    if (!ring) return console.fail(ring.error());
    what.ring = std::move(*ring);
  }
  for (const auto regime : {ir::Regime::many_queries, ir::Regime::transposed}) {
    if (regime == ir::Regime::transposed && !planned->plan.transposed) continue;
    auto compiled = compile_for_gpu(*planned, regime, sizes, options, console);
    if (!compiled) return console.fail(compiled.error(), &file->source);
    what.kernels.push_back(std::move(*compiled));
  }
  if (planned->bind.gradient && !planned->plan.transposed) {
    auto memory = backward_memory(*planned, shape.heads);
    if (!memory) return console.fail(memory.error());
    what.backward = *memory;
  }
  what.predicted = predict(what.load, *planned, what.kernels, shape, options.layout == "bhnd", options.llvm);
  if (console.json())
    print_json(what, console);
  else
    print_text(what, console);
  return kDone;
}

}  // namespace weft::tools
