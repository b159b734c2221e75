#include "laboratory/explain/explanation.h"

#include "compiler/ir/launchable.h"
#include "compiler/ir/tensor.h"
#include "runtime/engine/arguments.h"
#include "runtime/engine/destination.h"
#include "runtime/engine/engine_checks.h"
#include "runtime/engine/launch_checks.h"
#include "runtime/engine/tuned.h"

#include <fmt/format.h>

namespace weft::explain {

namespace {

Result<Planned> planned_for(const Request& request) {
  WEFT_TRY(const auto destination, find_destination(request.compile.target));
  if (destination.kind == Destination::Kind::interpreter) {
    return user_error("the interpreter has no plan; explain another target, such as cpu");
  }
  WEFT_CHECK(check_gradient(request.compile));
  return plan_as_engines_do(request.source, request.compile, request.stores, destination.target);
}

/// What a compiler makes of each text that a launch needs.
Result<std::vector<Compiled>> kernels_of(const Request& request, const Planned& planned, ir::Regime first,
                                         const Listener& listener) {
  const bool in_two = planned.plan.transposed != nullptr;
  if (planned.target.kind != TargetKind::cuda || !request.binaries) return std::vector<Compiled>(in_two ? 2 : 1);
  std::vector<Compiled> out;
  const auto binaries = request.binaries();
  std::vector<ir::Regime> regimes = {first};
  if (in_two) regimes.push_back(ir::Regime::transposed);
  for (const auto regime : regimes) {
    WEFT_TRY(auto compiled, compile_for_gpu(planned, regime, request.shape.heads, *binaries, listener));
    out.push_back(std::move(compiled));
  }
  for (const auto& warning : binaries->take_warnings()) listener.warn(warning);
  return out;
}

}  // namespace

std::optional<std::int64_t> tokens_of(const ir::Pattern& pattern) {
  if (pattern.tokens.kind == ir::Tokens::Kind::exact) return pattern.tokens.count;
  if (!pattern.grid.empty()) return ir::Tensor::count(pattern.grid);
  return std::nullopt;
}

ir::Shape shape_of(const ir::Pattern& pattern, std::int64_t batch, std::optional<std::int64_t> tokens,
                   std::optional<std::int64_t> keys) {
  ir::Shape shape{.batch = batch};
  shape.n_q = tokens.value_or(tokens_of(pattern).value_or(kTokens));
  shape.n_k = keys.value_or(shape.n_q);
  shape.heads = pattern.heads.value_or(kHeads);
  shape.kv_heads = pattern.kv_heads.value_or(shape.heads);
  shape.d = pattern.dim.value_or(kDim);
  shape.d_v = pattern.dim_v.value_or(shape.d);
  return shape;
}

Result<Explanation> explain(const Request& request, const Listener& listener) {
  WEFT_TRY(auto planned, planned_for(request));
  Explanation out{.planned = std::move(planned), .shape = request.shape};
  const ir::Pattern& pattern = out.planned.pattern;
  WEFT_CHECK(check_sizes(pattern, out.shape));
  WEFT_CHECK(ir::check_meaning(pattern, out.shape));
  {
    const auto running = listener.begin(fmt::format("counting the pairs of {}", pattern.name));
    WEFT_TRY(out.load, workload_of(out.planned, out.shape, request.inputs));
  }
  if (request.ring && !out.load.inputs_missing) {
    const auto doing = listener.begin("finding what ranks of a ring need");
    WEFT_TRY(out.ring, ring_report(out.planned, out.shape, request.inputs, *request.ring));
  }
  WEFT_TRY(out.kernels, kernels_of(request, out.planned, out.load.regime, listener));
  if (out.planned.bind.gradient && !out.planned.plan.transposed) {
    WEFT_TRY(out.backward, backward_memory(out.planned, out.shape.heads));
  }
  out.predicted = predict(out.load, out.planned, out.kernels, out.shape, request.heads_first, request.llvm);
  return out;
}

}  // namespace weft::explain
