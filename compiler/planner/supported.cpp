#include "compiler/planner/passes.h"

#include <fmt/format.h>

#include <unordered_set>

namespace weft::planner {
namespace {

using ir::SetKind;

void say(Draft& draft, const char* code, SourceRange range, std::string message, std::string label) {
  for (const auto& d : draft.diagnostics) {
    if (d.range == range && d.code == code) return;  // one keep reaches every branch
  }
  draft.diagnostics.push_back({.code = code, .range = range, .message = std::move(message), .label = std::move(label)});
  draft.diagnostics.back().notes.push_back("'--target interpreter' computes every pattern of the language");
}

void check_set(Draft& draft, const ir::Set& set) {
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

void check_dim(Draft& draft, const char* name, std::int64_t d) {
  if (d >= 1 && d <= 256) return;
  say(draft, "E0408", draft.pattern.dim_range,
      fmt::format("the {} is {}, but kernels of this version want 1 to 256", name, d), "");
}

void check_inputs(Draft& draft) {
  const auto& inputs = draft.pattern.inputs;
  if (inputs.size() > ir::kMostInputs) {
    say(draft, "E0404", inputs[ir::kMostInputs].range,
        fmt::format("this is input number {}; kernels have room for {}", ir::kMostInputs + 1, ir::kMostInputs), "");
  }
  for (const auto& input : inputs) {
    if (input.axes.size() <= ir::kMostAxes) continue;
    say(draft, "E0404", input.range,
        fmt::format("'{}' has {} axes; inputs of kernels have {} at most", input.name, input.axes.size(),
                    ir::kMostAxes),
        "");
  }
}

/// Branches that keep a pair are counted in a byte, and weights times such a count must be no infinity in f16.
constexpr std::size_t kMostBranchesOnGpus = 255;

void check_branches(Draft& draft) {
  const auto& branches = draft.pattern.branches;
  if (draft.target.kind != TargetKind::cuda || branches.size() <= kMostBranchesOnGpus) return;
  say(draft, "E0409", branches[kMostBranchesOnGpus].range,
      fmt::format("the pattern has {} branches, but kernels for GPUs count up to {}", branches.size(),
                  kMostBranchesOnGpus),
      fmt::format("branch number {}", kMostBranchesOnGpus + 1));
  draft.diagnostics.back().notes.push_back("'--target cpu' runs up to 4096");
}

/// Operations of an expression; what stands in memory once counts once.
std::size_t operations(const ir::ExprPtr& e, std::unordered_set<const ir::Expr*>& seen) {
  if (!e || !seen.insert(e.get()).second) return 0;
  std::size_t count = e->args.empty() ? 0 : 1;
  for (const auto& arg : e->args) count += operations(arg, seen);
  return count;
}

/// NVRTC takes seconds for a thousand operations, and minutes for some thousands.
constexpr std::size_t kMostOperationsOnGpus = 4096;

void check_score(Draft& draft) {
  if (draft.target.kind != TargetKind::cuda) return;
  const auto of_pairs = ir::of_pairs(draft.pattern);
  std::unordered_set<const ir::Expr*> seen;
  std::size_t count = operations(draft.pattern.sink_logit, seen);
  for (const auto& e : of_pairs) count += operations(e, seen);
  if (count <= kMostOperationsOnGpus) return;
  say(draft, "E0410", draft.pattern.name_range,
      fmt::format("the score has {} operations, but kernels for GPUs take up to {}", count, kMostOperationsOnGpus),
      "the pattern of this score");
  draft.diagnostics.back().notes.push_back(
      "'--target cpu' runs it; numbers that depend on the distance or the position are an input's: 'input bias: "
      "f32[heads, 257];' and "
      "'score s + bias[h, …];'");
}

}  // namespace

void refuse_unsupported(Draft& draft) {
  for (const auto& branch : draft.pattern.branches) check_set(draft, *branch.set);
  if (!draft.options.for_kernels) return;
  check_dim(draft, "head dim", draft.plan.bind.d);
  check_dim(draft, "value dim", draft.plan.bind.d_v);
  check_inputs(draft);
  check_branches(draft);
  check_score(draft);
}

}  // namespace weft::planner
