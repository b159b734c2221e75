#include "tools/commands/commands.h"
#include "tools/json.h"
#include "tools/operands.h"
#include "tools/pattern_file.h"
#include "tools/workload.h"

#include <fstream>
#include <thread>

#include "runtime/engine/reference.h"

namespace weft::tools {

namespace {

constexpr std::int64_t kTokens = 4096;  // where neither the pattern nor the user says
constexpr double kAssumedBytesPerSecond = 20e9;

/// The roofline of a machine that was not measured: `weft bench` measures it.
struct Prediction {
  double ms = 0, share_of_peak = 0;
  std::string from;
};

double nominal_hertz() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("cpu MHz")) return 1e6 * std::strtod(line.c_str() + line.find(':') + 1, nullptr);
  }
  return 2.5e9;
}

Prediction predict(const Workload& load, const Target& target) {
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const double hertz = nominal_hertz();
  const double peak = cores * hertz * target.lanes() * 2 * (target.has_fma ? 2 : 1);
  const double seconds = std::max(load.executed_flops / peak, load.bytes / kAssumedBytesPerSecond);
  return {.ms = 1e3 * seconds,
          .share_of_peak = seconds > 0 ? load.flops / seconds / peak : 0,
          .from = fmt::format("roofline: {:.0f} cores at {:.2f} GHz, two {}-bit {} a cycle, {:.0f} GB/s assumed", cores,
                              hertz / 1e9, target.vector_bits, target.has_fma ? "FMA" : "operations",
                              kAssumedBytesPerSecond / 1e9)};
}

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

/// Inputs that bounds read, where they were given.
Result<std::vector<ir::Tensor>> given_inputs(const Options& options, const ir::Pattern& pattern,
                                             const ir::Shape& shape) {
  std::vector<ir::Tensor> tensors;
  if (options.inputs.empty()) return tensors;
  Operands operands;
  operands.q = Array(DType::u8, {shape.batch, shape.n_q, shape.heads, 1});
  operands.k = operands.v = Array(DType::u8, {shape.batch, shape.n_k, shape.kv_heads, 1});
  WEFT_CHECK(add_inputs(operands, options, pattern));
  for (const auto& array : operands.inputs) tensors.push_back(to_f64(array.view()));
  return tensors;
}

const char* role_of(const ir::Phase& phase) {
  switch (phase.role) {
    case ir::Role::prepass:
      return "prepass";
    case ir::Role::attend:
      return "attend";
    case ir::Role::merge:
      return "merge";
  }
  return "?";
}

std::string count(double value) {
  for (auto [unit, name] : {std::pair{1e12, "T"}, std::pair{1e9, "G"}, std::pair{1e6, "M"}, std::pair{1e3, "k"}}) {
    if (value >= unit) return fmt::format("{:.2f} {}", value / unit, name);
  }
  return fmt::format("{:.0f} ", value);
}

void print_plan(const ir::Plan& plan, const Console& console) {
  for (const auto& phase : plan.phases) {
    std::size_t ranges = 0;
    for (const auto& pass : phase.passes) ranges += pass.ranges.size();
    console.print("  {}: {} rows a tile, {}; {} softmax over {} key range{}\n", role_of(phase), phase.rows.tile,
                  phase.rows.classes ? fmt::format("rows grouped by {} dilated branches", phase.rows.by.size())
                                     : "consecutive rows",
                  phase.passes.size() == 1 ? "one" : std::to_string(phase.passes.size()), ranges,
                  ranges == 1 ? "" : "s");
  }
  const auto& c = plan.choices;
  console.print("  tiles {} x {}, skipped when empty in {} x {}; registers {} keys x {} {}\n", c.tile_q, c.tile_k,
                c.sub_q, c.sub_k, c.micro_k, c.micro_q,
                c.kernel_class == ir::KernelClass::vector ? "vectors" : "rows a thread");
  for (const auto& reason : plan.reasons) console.print("  because {}\n", reason);
}

void print_text(const PatternFile& file, const Planned& planned, const ir::Shape& shape, const Workload& load,
                const Prediction& predicted, const Console& console) {
  console.print("{} on {}, {} queries, {} keys, {} heads, dim {}, {}\n", file.pattern.name, planned.target.name,
                shape.n_q, shape.n_k, shape.heads, shape.d, ir::to_string(planned.bind.dtype));
  print_plan(planned.plan, console);
  if (load.inputs_missing) {
    console.print("  work: depends on inputs; give them with --input name=X.npy\n");
  } else {
    console.print("  work: {}pairs kept (density {:.4f}), {}FLOP useful, {}FLOP executed ({:.2f} times)\n",
                  count(load.work.pairs), load.density, count(load.flops), count(load.executed_flops),
                  load.flops > 0 ? load.executed_flops / load.flops : 0);
    console.print("  tiles: {:.0f} full, {:.0f} partial, {:.0f} empty (never visited)\n", load.work.full_tiles,
                  load.work.partial_tiles, load.work.empty_tiles);
    console.print("  predicted: {:.3f} ms ({})\n", predicted.ms, predicted.from);
  }
  console.print("  memory: {}B of tensors, {} B a row carried between phases; planned in {:.0f} us\n",
                count(load.bytes), planned.plan.carry_bytes_per_row(), load.plan_us);
}

void print_json(const PatternFile& file, const Planned& planned, const ir::Shape& shape, const Workload& load,
                const Prediction& predicted, const Console& console) {
  const auto known = [&](double value) { return load.inputs_missing ? Json(nullptr) : Json(value); };
  const Json out{
      {"pattern", file.pattern.name},
      {"target", planned.target.name},
      {"batch", shape.batch},
      {"n_q", shape.n_q},
      {"n_k", shape.n_k},
      {"heads", shape.heads},
      {"kv_heads", shape.kv_heads},
      {"dim", shape.d},
      {"dim_v", shape.d_v},
      {"dtype", ir::to_string(planned.bind.dtype)},
      {"pairs", known(load.work.pairs)},
      {"density", known(load.density)},
      {"tiles",
       {{"empty", known(load.work.empty_tiles)},
        {"partial", known(load.work.partial_tiles)},
        {"full", known(load.work.full_tiles)}}},
      {"flops", known(load.flops)},
      {"executed_flops", known(load.executed_flops)},
      {"bytes", load.bytes},
      {"plan_us", load.plan_us},
      {"registers", nullptr},
      {"spill_bytes", nullptr},
      {"shared_bytes", nullptr},
      {"predicted",
       {{"ms", known(predicted.ms)}, {"from", predicted.from}, {"share_of_peak", known(predicted.share_of_peak)}}},
      {"phases", planned.plan.phases.size()},
      {"reasons", planned.plan.reasons}};
  console.print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

int command_explain(const Options& options, const Console& console) {
  const auto [file, status] = open_pattern(options, console);
  if (!file) return status;
  const auto planned = plan_file(*file, options, console);
  if (!planned) return console.fail(planned.error(), &file->source);
  Options quiet = options;
  quiet.quiet = true;  // plan_file has said the defaults already
  const auto sizes = default_sizes(options, file->pattern, Console(quiet));
  const auto shape = shape_to_explain(options, file->pattern, sizes, console);
  const auto inputs = given_inputs(options, file->pattern, shape);
  if (!inputs) return console.fail(inputs.error());
  const auto load = workload_of(*planned, shape, *inputs);
  if (!load) return console.fail(load.error());
  const auto predicted = predict(*load, planned->target);
  if (console.json())
    print_json(*file, *planned, shape, *load, predicted, console);
  else
    print_text(*file, *planned, shape, *load, predicted, console);
  return kDone;
}

}  // namespace weft::tools
