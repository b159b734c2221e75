#include "codegen/cuda/pairs.h"

#include "codegen/cuda/classes.h"
#include "codegen/cuda/conditions.h"
#include "codegen/cuda/expression.h"
#include "codegen/cuda/lists.h"
#include "compiler/ir/philox.h"

namespace weft::codegen::cuda {
namespace {

bool is_mma(const ir::Plan& plan) { return plan.choices.kernel_class == ir::KernelClass::mma; }

/// The text of a score stands in a kernel once for each pair that is computed side by side: 16 of a thread, or all 64
/// with matrix instructions, where it is short, one or two where it would make the kernel long.
void score(TextWriter& w, const ir::Plan& plan) {
  const bool mma = is_mma(plan);
  const int shortest = mma ? 16 : 60, longest = mma ? 120 : 240;
  const int cost = cost_of(*plan.score, plan.inputs);
  w.line("static constexpr bool kScored = true;");
  w.line("static constexpr int kKeysAtOnce = {}, kRowsAtOnce = {};",
         cost > shortest ? 1
         : mma           ? plan.choices.tile_k / 8
                         : 1,
         cost > longest ? 1
         : mma          ? 2 * plan.choices.micro_q
                        : plan.choices.micro_q);
  w.blank();
  write_function(
      w, "static __device__ __forceinline__ float score(const weft_args& a, const Tile& t, float s, int q, int k)",
      *plan.score, plan.inputs);
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

bool wants_header(const ir::Plan& plan, std::string_view name) {
  if (is_foreign(plan.choices.kernel_class, name)) return false;
  if (name == "expressions.cuh") return plan.score || plan.sink_logit || has_conditions(plan);
  if (name == "sinkless.cuh") return !plan.sink_logit;
  if (name == "conditions.cuh") return has_conditions(plan);
  if (name == "unconditional.cuh") return !has_conditions(plan);
  if (name.ends_with("dropout.cuh")) return plan.dropout > 0;
  if (name == "philox.cuh") return plan.dropout > 0 || chooses_keys(plan);
  if (name == "lists.cuh") return chooses_keys(plan);
  if (name == "merge.cuh") return plan.may_cut_keys();
  if (name == "skips.cuh") return passes_over_keys(plan);
  if (name == "summaries.cuh") return has_summaries(plan);
  return true;
}

}  // namespace weft::codegen::cuda
