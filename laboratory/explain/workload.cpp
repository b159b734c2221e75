#include "laboratory/explain/workload.h"

#include "codegen/cpu/kernel.h"
#include "compiler/ir/few_rows.h"
#include "compiler/planner/cost.h"
#include "compiler/planner/planner.h"
#include "runtime/cpu/sums.h"

#include <algorithm>
#include <chrono>

namespace weft::explain {

namespace {

bool reads_input(const ir::Expr& e) {
  return e.op == ir::Op::input ||
         std::any_of(e.args.begin(), e.args.end(), [](const ir::ExprPtr& arg) { return reads_input(*arg); });
}

bool depends_on_inputs(const ir::Plan& plan) {
  const auto reads = [](const ir::Bound& bound) { return bound.kind == ir::Bound::Kind::input; };
  for (const auto& phase : plan.phases) {
    for (const auto& pass : phase.passes) {
      for (const auto& range : pass.ranges) {
        for (const auto& bound : range.lo)
          if (reads(bound)) return true;
        for (const auto& bound : range.hi)
          if (reads(bound)) return true;
        for (const auto& row : range.rows)
          if (reads(row.bound)) return true;
      }
    }
  }
  // Blocks that score best by an input are not known without it.
  const auto scored = [](const ir::List& list) { return !list.summarizes() && list.input >= 0; };
  if (std::any_of(plan.lists.begin(), plan.lists.end(), scored)) return true;
  const auto in = [](const ir::ExprPtr& e) { return e && reads_input(*e); };
  return std::any_of(plan.forms.begin(), plan.forms.end(), in) ||
         std::any_of(plan.predicates.begin(), plan.predicates.end(),
                     [&](const ir::Predicate& p) { return in(p.holds) || in(p.key) || in(p.lo) || in(p.hi); });
}

}  // namespace

Result<BackwardMemory> backward_memory(const Planned& planned, std::int64_t heads) {
  WEFT_TRY(const auto tables, ir::make_tables(planned.plan, heads));
  const codegen::cpu::Kernel at(planned.plan, planned.target);
  return BackwardMemory{.scratch_bytes = codegen::cpu::scratch_bytes(at, tables.most_terms),
                        .page_keys = cpu::kPageKeys,
                        .page_bytes = cpu::kPageKeys * at.sum_row * std::int64_t{sizeof(float)}};
}

double executed_flops(const ir::Plan& plan, const planner::Work& work) {
  const bool finds_deltas = plan.finds_deltas() && plan.transposed;
  const std::int64_t before = finds_deltas ? plan.bind.d + plan.bind.d_v : 0;
  return 2 * static_cast<double>(planner::multiplications(plan) + before) * work.executed;
}

Result<Workload> workload_of(const Planned& planned, const ir::Shape& shape, const std::vector<ir::Tensor>& inputs) {
  Workload load;
  const auto start = std::chrono::steady_clock::now();
  WEFT_TRY(const auto first, planner::plan(planned.pattern, planned.bind, planned.target));
  WEFT_TRY(const auto tables, ir::make_tables(first, shape.heads));
  load.plan_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  const bool alike = ir::heads_are_alike(first, tables);
  load.regime = ir::regime_of(first, alike, shape);
  const ir::Plan& plan = ir::plan_of(first, load.regime);
  const Compilation kernel(planned);
  WEFT_TRY(const auto of_regime, kernel.tables(shape.heads, load.regime));
  load.heads_per_tile = ir::heads_per_tile(plan, of_regime->alike, shape);
  WEFT_TRY(load.launches, rehearse(kernel, shape));
  load.bytes = planner::tensor_bytes(plan, shape);
  load.inputs_missing = inputs.empty() && depends_on_inputs(plan);
  if (load.inputs_missing) return load;
  load.work = planner::count_work(plan, of_regime->tables, shape, inputs);
  // A backward pass has five products: S, dQ and dK of d columns, dP and dV of d_v.
  const double columns = static_cast<double>(planned.bind.gradient ? 3 * shape.d + 2 * shape.d_v : shape.d + shape.d_v);
  load.flops = 2 * columns * load.work.pairs;
  load.executed_flops = executed_flops(plan, load.work);
  if (plan.transposed) {
    WEFT_TRY(const auto of_keys, kernel.tables(shape.heads, ir::Regime::transposed));
    load.transposed = planner::count_work(*plan.transposed, of_keys->tables, shape, inputs);
    load.executed_flops += executed_flops(*plan.transposed, load.transposed);
  }
  load.density = load.work.pairs / (static_cast<double>(shape.batch * shape.heads) * static_cast<double>(shape.n_q) *
                                    static_cast<double>(shape.n_k));
  return load;
}

}  // namespace weft::explain
