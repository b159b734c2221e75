#include "compiler/planner/passes.h"
#include "compiler/planner/primitives.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::planner {
namespace {

using ir::SetKind;

/// What the kernels of one kind of target know beyond sets. Plans know it all.
struct Ability {
  bool scores = false;
  bool dropout = false;
  bool conditions = false;  ///< on pairs, and bounds that a row gives
};
constexpr Ability kCpuKernels = {.scores = true, .dropout = true, .conditions = true};
constexpr Ability kCudaKernels = {.scores = true, .dropout = true, .conditions = true};

bool can_bound(SetKind kind) {
  const bool is_operator = kind == SetKind::all || kind == SetKind::intersection || kind == SetKind::unite ||
                           kind == SetKind::difference || kind == SetKind::complement || kind == SetKind::blocks ||
                           kind == SetKind::where;
  return is_operator || find_primitive(kind) != nullptr;
}

void say(Draft& draft, const char* code, SourceRange range, std::string message, std::string label) {
  for (const auto& d : draft.diagnostics) {
    if (d.range == range && d.code == code) return;  // one keep reaches every branch
  }
  draft.diagnostics.push_back({.code = code, .range = range, .message = std::move(message), .label = std::move(label)});
  draft.diagnostics.back().notes.push_back("'--target interpreter' computes every pattern of the language");
}

void check_set(Draft& draft, const ir::Set& set) {
  if (!can_bound(set.kind)) {
    say(draft, "E0401", set.range,
        fmt::format("the set '{}' is not available in kernels of this version", ir::to_string(set.kind)), "this set");
    return;
  }
  if (set.kind == SetKind::lengths && set.input >= 0) {
    const auto& input = draft.pattern.inputs[static_cast<std::size_t>(set.input)];
    const bool fits =
        input.type == ir::InputType::i32 && input.axes.size() == 1 && input.axes[0].kind == ir::Axis::Kind::batch;
    if (!fits) {
      say(draft, "E0404", input.range,
          fmt::format("'lengths' needs one number per batch entry, but '{}' is not i32[batch]", input.name),
          "declare it as i32[batch]");
    }
  }
  for (const auto& child : set.children) check_set(draft, *child);
}

const Ability& ability(const Draft& draft) {
  return draft.target.kind == TargetKind::cuda ? kCudaKernels : kCpuKernels;
}

void check_dim(Draft& draft, const char* name, std::int64_t d) {
  if (d >= 1 && d <= 256) return;
  say(draft, "E0408", draft.pattern.dim_range,
      fmt::format("the {} is {}, but kernels of this version want 1 to 256", name, d), "");
}

/// A set that is planned by conditions on pairs; null if there is none.
const ir::Set* conditional(const ir::Set& set) {
  constexpr SetKind kKinds[] = {SetKind::lag,      SetKind::neighborhood, SetKind::axial,
                                SetKind::document, SetKind::table,        SetKind::where,
                                SetKind::blocks,   SetKind::random,       SetKind::top};
  if (std::find(std::begin(kKinds), std::end(kKinds), set.kind) != std::end(kKinds)) return &set;
  for (const auto& child : set.children) {
    if (const ir::Set* found = conditional(*child)) return found;
  }
  return nullptr;
}

}  // namespace

void refuse_conditions(Draft& draft) {
  const bool none = draft.plan.predicates.empty() && draft.plan.forms.empty();
  if (none || !draft.options.for_kernels || ability(draft).conditions) return;
  for (const auto& branch : draft.pattern.branches) {
    const ir::Set* set = conditional(*branch.set);
    if (set == nullptr) continue;
    say(draft, "E0401", set->range,
        fmt::format("this '{}' is not available in kernels of this version", ir::to_string(set->kind)), "this set");
  }
}

void refuse_unsupported(Draft& draft) {
  const ir::Pattern& p = draft.pattern;
  for (const auto& branch : p.branches) check_set(draft, *branch.set);
  if (!draft.options.for_kernels) return;
  check_dim(draft, "head dim", draft.plan.bind.d);
  check_dim(draft, "value dim", draft.plan.bind.d_v);
  const Ability& know = ability(draft);
  const bool plain = !p.score || (p.score->op == ir::Op::variable && p.score->variable == ir::Variable::s);
  if (!plain && !know.scores) {
    say(draft, "E0402", p.score->range, "score expressions are not available in kernels of this version", "this score");
  }
  if (p.scale && p.scale->op != ir::Op::constant && !know.scores) {
    say(draft, "E0402", p.scale->range,
        "a scale that differs from pair to pair is not available in kernels of this version", "write a constant");
  }
  if (p.dropout > 0 && !know.dropout) {
    say(draft, "E0403", p.name_range, "dropout is not available in kernels of this version",
        "this pattern drops weights");
  }
}

}  // namespace weft::planner
