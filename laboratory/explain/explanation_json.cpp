#include "compiler/ir/key_chunks.h"
#include "laboratory/explain/explanation.h"
#include "laboratory/explain/products.h"

#include <algorithm>

namespace weft::explain {

namespace {

Json json_of(const std::vector<Rehearsed>& launches) {
  Json out = Json::array();
  for (const auto& [step, blocks] : launches) {
    out.push_back(
        {{"does", ir::to_string(step)}, {"number", step.number}, {"blocks", blocks}, {"threads", step.threads}});
  }
  return out;
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

Json backward_json(const Explanation& what) {
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

}  // namespace

Json to_json(const Explanation& what) {
  const auto& [planned, shape, load, kernels, predicted, backward, ring] = what;
  const auto known = [&](double value) { return what.load.inputs_missing ? Json(nullptr) : Json(value); };
  const bool is_bf16 = planned.bind.dtype == ir::DType::bf16;
  Json out{{"pattern", planned.pattern.name}, {"target", planned.target.name}};
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
  return out;
}

}  // namespace weft::explain
