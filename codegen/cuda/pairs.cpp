#include "codegen/cuda/pairs.h"

#include "codegen/cuda/conditions.h"
#include "codegen/cuda/expression.h"
#include "codegen/cuda/lists.h"
#include "compiler/ir/philox.h"

namespace weft::codegen::cuda {
namespace {

/// The text of a score stands in a kernel once for each pair that is computed side by side: all 32 of a thread where
/// it is short, one where it would make the kernel long.
void score(TextWriter& w, const ir::Plan& plan) {
  constexpr int kShort = 60, kLong = 240;
  const int cost = cost_of(*plan.score, plan.inputs);
  w.line("static constexpr bool kScored = true;");
  w.line("static constexpr int kKeysAtOnce = {}, kRowsAtOnce = {};", cost <= kShort ? 4 : 1, cost <= kLong ? 8 : 1);
  w.blank();
  write_function(
      w, "static __device__ __forceinline__ float score(const weft_args& a, const Tile& t, float s, int q, int k)",
      *plan.score, plan.inputs);
}

void dropout(TextWriter& w, const ir::Plan& plan) {
  const double left = 1 - plan.dropout;
  w.line("static constexpr bool kDrops = true;");
  w.blank();
  w.line("/// Each weight with probability {}; the others grow for it.", plan.dropout);
  w.line(
      "static __device__ __forceinline__ void drop(const weft_args& a, Shared& s, const Tile& t, int from, int count) "
      "{{");
  w.line("  drop_weights(a, s, t, from, count, {}u, {});", ir::dropout_threshold(plan.dropout),
         real_literal(left > 0 ? 1 / left : 0));
  w.line("}}");
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

bool wants_header(const ir::Plan& plan, std::string_view name) {
  if (name == "expressions.cuh") return plan.score != nullptr || has_conditions(plan);
  if (name == "conditions.cuh") return has_conditions(plan);
  if (name == "unconditional.cuh") return !has_conditions(plan);
  if (name == "dropout.cuh") return plan.dropout > 0;
  if (name == "philox.cuh") return plan.dropout > 0 || chooses_keys(plan);
  if (name == "lists.cuh") return chooses_keys(plan);
  if (name == "summaries.cuh") return has_summaries(plan);
  return true;
}

}  // namespace weft::codegen::cuda
