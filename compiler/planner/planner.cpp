#include "compiler/planner/planner.h"

#include "compiler/planner/passes.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::planner {
namespace {

struct PassEntry {
  const char* name;
  void (*run)(Draft&);
};

/// The pipeline. Diagnostics of one pass end the run behind it.
constexpr PassEntry kPasses[] = {
    {"refuse_unsupported", refuse_unsupported},
    {"normalize", normalize},
    {"make_ranges", make_ranges},
    {"choose_tiles", choose_tiles},
    {"choose_rows", choose_rows},
    {"cut_keys", cut_keys},
    {"order_tiles", order_tiles},
    {"summarize", summarize},
    {"choose_decoding", choose_decoding},
};

/// The scale where it is a number; where it differs from pair to pair it goes into the score.
void set_score(const ir::Pattern& pattern, ir::Plan& plan) {
  const ir::ExprPtr s = ir::variable(ir::Variable::s);
  ir::ExprPtr score = pattern.score ? pattern.score : s;
  if (pattern.sigmoid) {
    score = ir::apply(ir::Op::sigmoid, {ir::replace(pattern.sigmoid, ir::Variable::s, score)});
    plan.weights = ir::Weights::direct;
  }
  const bool is_plain = ir::same(*score, *s);
  if (!is_plain) plan.score = score;
  if (!pattern.scale) return;
  if (pattern.scale->op == ir::Op::constant) {
    plan.scale =
        pattern.scale->type == ir::Type::integer ? static_cast<double>(pattern.scale->integer) : pattern.scale->real;
    return;
  }
  plan.scale = 1;
  plan.score = ir::replace(score, ir::Variable::s, ir::apply(ir::Op::multiply, {s, pattern.scale}));
}

/// Is it no plan that stands beside another?
bool is_first(const Options& options) { return options.stationary == ir::Stationary::query && !options.of_inputs; }

/// Can an input have a gradient?
bool has_real_input(const ir::Plan& plan) {
  return std::any_of(plan.inputs.begin(), plan.inputs.end(),
                     [](const ir::Input& input) { return input.type == ir::InputType::f32; });
}

}  // namespace

Result<ir::Plan> plan(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target, const Options& options) {
  Draft draft{.pattern = pattern,
              .target = target,
              .options = options,
              .plan = {},
              .branches = {},
              .ranges = {},
              .diagnostics = {}};
  ir::Plan& p = draft.plan;
  p.name = pattern.name;
  p.target = target.kind == TargetKind::cuda ? "cuda" : "cpu";
  p.bind = bind;
  p.combine = pattern.combine;
  p.branches = static_cast<int>(pattern.branches.size());
  p.inputs = pattern.inputs;
  p.ring = pattern.ring;
  p.dropout = pattern.dropout;
  p.sink_logit = pattern.sink_logit;
  set_score(pattern, p);
  for (const auto& pass : kPasses) {
    pass.run(draft);
    if (!draft.diagnostics.empty()) return user_error(std::move(draft.diagnostics));
  }
  if (options.of_inputs) {
    for (auto& phase : p.phases) phase.role = ir::Role::inputs;
  }
  if (bind.gradient && target.kind == TargetKind::cuda && is_first(options)) {
    const auto beside = [&](const Options& further) -> Result<std::shared_ptr<const ir::Plan>> {
      WEFT_TRY(auto made, planner::plan(pattern, bind, target, further));
      if (made.stationary() == ir::Stationary::key) share_summaries(p, made);
      return std::make_shared<const ir::Plan>(std::move(made));
    };
    Options of_keys = options, of_inputs = options;
    of_keys.stationary = ir::Stationary::key;
    of_inputs.of_inputs = true;
    WEFT_TRY(p.transposed, beside(of_keys));
    if (has_real_input(p)) {
      WEFT_TRY(p.of_inputs, beside(of_inputs));
    }
  }
  if (auto wrong = ir::verify(p); !wrong.empty()) {
    Error error = internal_error(fmt::format("the plan of '{}' is not sound", pattern.name));
    error.notes = std::move(wrong);
    return error;
  }
  return std::move(draft.plan);
}

ir::Pattern hop_of(const ir::Pattern& pattern, ir::RingLayout layout, std::int64_t ranks, std::int64_t rank,
                   std::int64_t from) {
  const auto owner = [&](ir::SetKind kind, std::int64_t g) {
    ir::Set set;
    set.kind = kind;
    set.args = {ranks, g};
    set.layout = layout;
    return std::make_shared<const ir::Set>(std::move(set));
  };
  ir::Pattern out = pattern;
  out.sink_logit = nullptr;  // it joins once, when all hops have been merged
  for (auto& branch : out.branches) {
    branch.set = ir::make_set(
        ir::SetKind::intersection,
        std::vector<ir::SetPtr>{branch.set, owner(ir::SetKind::own_query, rank), owner(ir::SetKind::own_key, from)});
  }
  return out;
}

}  // namespace weft::planner
