#include "compiler/ir/predicates.h"
#include "compiler/planner/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace weft::planner {
namespace {

using ir::Expr;
using ir::List;
using ir::Predicate;
using ir::Variable;

/// Keys in runs of so many or more are passed over quickly as it is.
constexpr std::int64_t kLongRun = ir::kSummaryBlock / 2;

/// Does an input stand in it that is indexed by all of these?
bool reads_input_by(const Expr& e, std::initializer_list<Variable> variables) {
  return ir::any_node(e, [&](const Expr& node) {
    const auto by = [&](Variable v) { return ir::reads(node, v); };
    return node.op == ir::Op::input && std::all_of(variables.begin(), variables.end(), by);
  });
}

/// For conditions of which only a look at the caller's tensors tells what keys say to them.
std::optional<List::Kind> summary_for(const Predicate& p) {
  if (p.modulus > 0 || ir::key_unit(p, ir::Stationary::query) >= kLongRun) return std::nullopt;
  const bool worth =
      p.key ? reads_input_by(*p.key, {Variable::k}) : reads_input_by(*p.holds, {Variable::q, Variable::k});
  if (!worth) return std::nullopt;
  return p.key ? List::Kind::spans : List::Kind::meets;
}

/// Blocks of fewer queries are chosen by so many of a tile's keys that none of them can be passed over.
constexpr std::int64_t kLeastChosen = 16;

/// Of what lists choose for queries, tiles of keys look up who chose them.
void invert_lists(Draft& draft) {
  ir::Plan& plan = draft.plan;
  if (!plan.bind.gradient || draft.target.kind != TargetKind::cuda) return;
  for (std::size_t i = 0; i < plan.predicates.size() && plan.lists.size() < ir::kMostLists; ++i) {
    const Predicate& p = plan.predicates[i];
    const auto queries = ir::listed_unit(p, ir::Stationary::key), keys = ir::listed_unit(p, ir::Stationary::query);
    if (std::min(queries, keys) < kLeastChosen) continue;
    const auto block = plan.lists[static_cast<std::size_t>(p.holds->input)].block;
    plan.lists.push_back({.kind = List::Kind::choosers, .block = block, .predicate = static_cast<int>(i)});
    plan.reasons.push_back(fmt::format(
        "who chose what list {} chose is found out: tiles of keys pass over queries that did not", p.holds->input));
  }
}

}  // namespace

void summarize(Draft& draft) {
  if (draft.options.stationary != ir::Stationary::query) return;
  ir::Plan& plan = draft.plan;
  invert_lists(draft);
  for (std::size_t i = 0; i < plan.predicates.size() && plan.lists.size() < ir::kMostLists; ++i) {
    const auto kind = summary_for(plan.predicates[i]);
    if (!kind) continue;
    plan.lists.push_back({.kind = *kind, .block = ir::kSummaryBlock, .predicate = static_cast<int>(i)});
    const bool is_spans = plan.predicates[i].key != nullptr;
    plan.reasons.push_back(
        fmt::format("condition {} is summarized for every {} keys{}: tiles pass over those that none keep{}", i,
                    ir::kSummaryBlock, is_spans ? "" : fmt::format(" and {} queries", ir::kSummaryBlock),
                    is_spans && draft.target.kind == TargetKind::cuda
                        ? ", and what they keep is a bound where keys follow each other"
                        : ""));
  }
}

void share_summaries(const ir::Plan& of_queries, ir::Plan& of_keys) {
  for (std::size_t i = of_keys.lists.size(); i < of_queries.lists.size(); ++i) {
    ir::List list = of_queries.lists[i];
    const Predicate& p = of_queries.predicates[static_cast<std::size_t>(list.predicate)];
    const bool spans = list.kind == List::Kind::spans;
    if (!spans && list.kind != List::Kind::choosers) return;
    const auto said = spans ? ir::replace(p.key, Variable::k, ir::variable(Variable::q)) : p.holds;
    const auto same = std::find_if(of_keys.predicates.begin(), of_keys.predicates.end(), [&](const Predicate& of_key) {
      const auto& e = spans ? of_key.key : of_key.holds;
      return e && ir::same(*e, *said);
    });
    if (same == of_keys.predicates.end()) return;
    list.predicate = static_cast<int>(same - of_keys.predicates.begin());
    of_keys.lists.push_back(list);
    of_keys.reasons.push_back(
        spans ? fmt::format("condition {} asks of queries what list {} knows of keys", list.predicate, i)
              : fmt::format("list {} knows for which queries condition {} may hold", i, list.predicate));
  }
}

}  // namespace weft::planner
