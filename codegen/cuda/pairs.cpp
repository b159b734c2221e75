#include "codegen/cuda/pairs.h"

#include "codegen/cuda/classes.h"
#include "codegen/cuda/conditions.h"
#include "codegen/cuda/expression.h"
#include "codegen/cuda/lists.h"
#include "compiler/ir/derivative.h"
#include "compiler/ir/philox.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace weft::codegen::cuda {
namespace {

bool is_mma(const ir::Plan& plan) { return plan.choices.kernel_class == ir::KernelClass::mma; }

constexpr const char* kOfPair = "(const weft_args& a, const Tile& t, float s, int q, int k)";

void write_of_pair(TextWriter& w, const ir::Plan& plan, const char* name, const ir::Expr& e) {
  w.blank();
  write_function(w, std::string("static __device__ __forceinline__ float ") + name + kOfPair, e, plan.inputs);
}

/// Of warps that share rows, each of which has a part of a block's keys.
int key_parts(const ir::Choices& c) { return walk::BlockShape{.rows = c.tile_q, .threads = c.threads}.key_parts(); }
/// Of a warp's share of a block of keys.
int tiles_of_keys(const ir::Choices& c) { return c.tile_k / 8 / key_parts(c); }

/// The text of a score stands in a kernel once for each pair that is computed side by side: 16 of a thread, or all 64
/// with matrix instructions, where it is short, one or two where it would make the kernel long.
void score(TextWriter& w, const ir::Plan& plan) {
  const bool mma = is_mma(plan);
  const int shortest = mma ? 16 : 60, longest = mma ? 120 : 240;
  const auto slope = plan.bind.gradient ? ir::derivative(plan.score, ir::variable(ir::Variable::s)) : nullptr;
  const int cost = cost_of(*plan.score, plan.inputs) + (slope ? cost_of(*slope, plan.inputs) : 0);
  w.line("static constexpr bool kScored = true;");
  w.line("static constexpr int kKeysAtOnce = {}, kRowsAtOnce = {};",
         cost > shortest ? 1
         : mma           ? tiles_of_keys(plan.choices)
                         : 1,
         cost > longest ? 1
         : mma          ? 2 * plan.choices.micro_q
                        : plan.choices.micro_q);
  write_of_pair(w, plan, "score", *plan.score);
  if (slope) write_of_pair(w, plan, "slope", *slope);
}

void dropout(TextWriter& w, const ir::Plan& plan) {
  const double left = 1 - plan.dropout;
  w.line("static constexpr bool kDrops = true;");
  w.line("static constexpr u64 kDropped = {}u;", ir::dropout_threshold(plan.dropout));
  w.line("static constexpr float kScaled = {};", real_literal(left > 0 ? 1 / left : 0));
}

}  // namespace

bool has_pairs(const ir::Plan& plan) { return plan.score != nullptr || plan.dropout > 0; }

void write_pairs(TextWriter& w, const ir::Plan& plan) {
  w.blank();
  w.line("// ---- what the pattern says of single pairs ----");
  w.blank();
  w.line("struct Pairs : PlainPairs {{");
  w.indent();
  if (plan.score) score(w, plan);
  if (plan.score && plan.dropout > 0) w.blank();
  if (plan.dropout > 0) dropout(w, plan);
  w.dedent();
  w.line("}};");
}

void write_elements(TextWriter& w, const ir::Plan& plan) {
  std::vector<ir::ExprPtr> elements, slopes;
  std::size_t of_sink = 0;
  for (const auto& e : {plan.score, plan.sink_logit}) {
    if (!e) continue;
    const auto read = ir::real_elements(e);
    for (const auto& by : read) slopes.push_back(ir::derivative(e, by));
    elements.insert(elements.end(), read.begin(), read.end());
    if (e == plan.sink_logit) of_sink = read.size();
  }
  w.blank();
  w.line("// ---- what scores and the sink read of inputs ----");
  w.blank();
  w.line("struct Elements {{");
  w.indent();
  w.line("static constexpr int kCount = {}, kOfSink = {};", elements.size(), of_sink);
  const std::string known = "(const weft_args& a, const Tile& t";
  for (std::size_t i = 0; i < elements.size(); ++i) {
    w.blank();
    write_place(w, fmt::format("static __device__ __forceinline__ i64 place_{}{}, int q, int k)", i, known),
                *elements[i], plan.inputs);
    w.blank();
    write_function(w,
                   fmt::format("static __device__ __forceinline__ float slope_{}{}, float s, int q, int k)", i, known),
                   *slopes[i], plan.inputs);
  }
  const auto choice = [&](const char* type, const char* name, const std::string& of, const auto& value) {
    w.blank();
    w.line("static __device__ __forceinline__ {} {}({}) {{", type, name, of);
    for (std::size_t i = 0; i < elements.size(); ++i) w.line("  if (element == {}) return {};", i, value(i));
    w.line("  return 0;");
    w.line("}}");
  };
  const std::string of_pair = "const weft_args& a, const Tile& t, int element";
  choice("int", "input", "int element", [&](std::size_t i) { return fmt::format("{}", elements[i]->input); });
  choice("i64", "place", of_pair + ", int q, int k",
         [](std::size_t i) { return fmt::format("place_{}(a, t, q, k)", i); });
  choice("float", "slope", of_pair + ", float s, int q, int k",
         [](std::size_t i) { return fmt::format("slope_{}(a, t, s, q, k)", i); });
  w.dedent();
  w.line("}};");
}

void write_sink(TextWriter& w, const ir::Plan& plan) {
  w.blank();
  w.line("// ---- what joins the sum of a head's rows ----");
  w.blank();
  write_function(w, "__device__ __forceinline__ float sink_logit(const weft_args& a, const Tile& t)", *plan.sink_logit,
                 plan.inputs);
  w.blank();
  w.line("__device__ __forceinline__ float sink_logit(const weft_args& a, int h) {{");
  w.line("  Tile t = {{}};");
  w.line("  t.h = h;");
  // fault(sink_in_base_e) instead: w.line("  return sink_logit(a, t) * 0.693147180559945309f;");
  w.line("  return sink_logit(a, t);");
  w.line("}}");
}

namespace {

/// Of the forward pass, which the backward has other headers for; and the other way round.
bool is_of_other_pass(const ir::Plan& plan, std::string_view name) {
  constexpr std::string_view kOfForward[] = {
      "carried.cuh",      "results.cuh",      "simt_memory.cuh",  "simt_views.cuh",   "results_in_memory.cuh",
      "simt_softmax.cuh", "simt_dropout.cuh", "simt_results.cuh", "mma_memory.cuh",   "mma_views.cuh",
      "mma_softmax.cuh",  "mma_dropout.cuh",  "mma_results.cuh",  "mma_runs.cuh",     "mma_no_sets.cuh",
      "mma_sets.cuh",     "mma_attend.cuh",   "mma_gather.cuh",   "mma_no_gather.cuh"};
  const bool of_gradient =
      name.find("gradient") != std::string_view::npos || name.find("terms") != std::string_view::npos;
  if (!plan.bind.gradient) return of_gradient || name == "input_sums.cuh";
  const bool of_keys = plan.stationary() == ir::Stationary::key;
  const bool of_inputs = plan.phases.front().role == ir::Role::inputs;
  if (name.find("input") != std::string_view::npos) return !of_inputs;
  if (name == "gradient_keys.cuh") return !of_keys;
  if (name == "gradient_queries.cuh" || name == "terms_kernel.cuh") return of_keys || of_inputs;
  return std::find(std::begin(kOfForward), std::end(kOfForward), name) != std::end(kOfForward);
}

}  // namespace

bool wants_header(const ir::Plan& plan, ir::Regime regime, std::string_view name) {
  if (is_foreign(plan.choices.kernel_class, name) || is_of_other_pass(plan, name)) return false;
  if (name == "expressions.cuh") return plan.score || plan.sink_logit || has_conditions(plan);
  if (name == "sinkless.cuh") return !plan.sink_logit;
  if (name == "conditions.cuh") return has_conditions(plan);
  if (name == "unconditional.cuh") return !has_conditions(plan);
  if (name.ends_with("dropout.cuh")) return plan.dropout > 0;
  const bool few = ir::is_of_few(regime), chooses = has_prepass(plan, regime) && chooses_keys(plan);
  if (name == "philox.cuh") return plan.dropout > 0 || chooses;
  if (name == "mma_warps.cuh") return plan.choices.groups == 0;
  if (name == "mma_groups.cuh" || name == "mma_group_ptx.cuh") return plan.choices.groups != 0;
  if (name == "lists.cuh") return chooses;
  if (name == "best_keys.cuh") return chooses && chooses_best(plan);
  if (name == "sizes.cuh" || name == "chunks.h" || name == "gradient_zeros.cuh") return ir::finds_sizes(plan, regime);
  if (name == "merge.cuh") return few && plan.may_cut_keys();
  if (name == "results_in_memory.cuh") return plan.carry_bytes_per_row() > 0;
  if (name == "no_skips.cuh") return !passes_over_keys(plan);
  if (name == "skips.cuh") return passes_over_keys(plan);
  if (name == "no_next_listed.cuh") return passes_over_keys(plan) && !follows_lists(plan);
  if (name == "next_listed.cuh") return follows_lists(plan);
  if (name == "mma_no_gather.cuh") return key_parts(plan.choices) == 1;
  if (name == "mma_gather.cuh") return key_parts(plan.choices) > 1;
  if (name == "mma_no_sets.cuh") return !has_sets(plan);
  if (name == "mma_sets.cuh") return has_sets(plan);
  if (name == "value_bounds.cuh") return has_spans(plan);
  if (name == "summaries.cuh") return has_summaries(plan);
  if (name == "choosers.cuh") return has_choosers(plan) && has_prepass(plan, regime);
  if (name == "next_chooser.cuh") return has_choosers(plan) && plan.stationary() == ir::Stationary::key;
  return true;
}

}  // namespace weft::codegen::cuda
