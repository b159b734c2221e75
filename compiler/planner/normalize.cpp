#include "compiler/planner/conjunctions.h"
#include "compiler/planner/passes.h"
#include "compiler/planner/primitives.h"
#include "compiler/planner/where.h"

#include <fmt/format.h>

#include <utility>

namespace weft::planner {
namespace {

using ir::SetKind;

constexpr std::size_t kMostConjunctions = 256;

class Normalizer {
 public:
  explicit Normalizer(Draft& draft) : draft_(draft), context_(draft) {}

  Dnf of(const ir::Set& set, bool negated) {
    if (set.kind == SetKind::all) return negated ? Dnf{} : Dnf{Conjunction{}};
    if (set.kind == SetKind::complement) return of(*set.children[0], !negated);
    if (set.kind == SetKind::intersection) return fold(set, negated, !negated);
    if (set.kind == SetKind::unite) return fold(set, negated, negated);
    if (set.kind == SetKind::difference) {
      return negated ? unite(of(*set.children[0], true), of(*set.children[1], false))
                     : intersect(of(*set.children[0], false), of(*set.children[1], true), set);
    }
    if (set.kind == SetKind::blocks) {
      const Context outside = std::exchange(context_, context_.inside(set.args[0]));
      Dnf out = of(*set.children[0], negated);
      context_ = outside;
      return out;
    }
    if (set.kind == SetKind::where) return where(set, negated);
    const Dnf pieces = find_primitive(set.kind)(set, context_);
    return negated ? negate(pieces, set) : pieces;
  }

 private:
  Dnf fold(const ir::Set& set, bool negated, bool meet_all) {
    Dnf out = of(*set.children[0], negated);
    for (std::size_t i = 1; i < set.children.size(); ++i) {
      const Dnf next = of(*set.children[i], negated);
      out = meet_all ? intersect(out, next, set) : unite(std::move(out), next);
    }
    return out;
  }

  Dnf intersect(const Dnf& a, const Dnf& b, const ir::Set& set) {
    auto out = both(a, b, kMostConjunctions);
    return out ? std::move(*out) : too_complex(set);
  }

  Dnf too_complex(const ir::Set& set) {
    if (draft_.diagnostics.empty()) {
      draft_.diagnostics.push_back(
          {.code = "E0405",
           .range = set.range,
           .message = fmt::format("this set falls into more than {} pieces", kMostConjunctions),
           .label = "too many unions under intersections or complements"});
    }
    return {};
  }

  /// A condition that falls into many pieces is cheaper asked than walked.
  Dnf where(const ir::Set& set, bool negated) {
    const ir::ExprPtr condition = context_.positions(negated ? ir::apply(ir::Op::logical_not, {set.expr}) : set.expr);
    if (auto pieces = pieces_of(condition, context_)) return *pieces;
    return {context_.pair({.holds = condition, .key = nullptr, .lo = nullptr, .hi = nullptr})};
  }

  Dnf negate(const Dnf& pieces, const ir::Set& set) {
    auto out = opposite(pieces, kMostConjunctions);
    return out ? std::move(*out) : too_complex(set);
  }

  Draft& draft_;
  Context context_;
};

/// What a plan has no room for.
void refuse_excess(Draft& draft) {
  const auto say = [&](const char* what, std::size_t found, std::size_t most) {
    if (found <= most || !draft.diagnostics.empty()) return;
    draft.diagnostics.push_back(
        {.code = "E0405",
         .range = draft.pattern.name_range,
         .message = fmt::format("this pattern has {} different {}; at most {} fit in a kernel", found, what, most),
         .label = {}});
  };
  say("sets of chosen keys ('random', 'top')", draft.plan.lists.size(), ir::kMostLists);
  say("conditions on pairs", draft.plan.predicates.size(), ir::kMostPredicates);
  say("bounds that rows give", draft.plan.forms.size(), ir::kMostPredicates);
}

}  // namespace

void normalize(Draft& draft) {
  Normalizer normalizer(draft);
  for (const auto& branch : draft.pattern.branches) draft.branches.push_back(normalizer.of(*branch.set, false));
  refuse_excess(draft);
}

ir::KeyRange range_of(const Conjunction& c, int branch, const ir::HeadSet& heads) {
  ir::KeyRange range{.branch = branch,
                     .heads = heads,
                     .when = c.heads,
                     .stream = {},
                     .filters = c.y,
                     .lo = c.lo,
                     .hi = c.hi,
                     .rows = c.rows,
                     .row_congruences = c.x,
                     .predicates = c.pairs};
  // The largest stride leaves the fewest keys to look at.
  auto best = range.filters.end();
  for (auto at = range.filters.begin(); at != range.filters.end(); ++at) {
    if (!at->negated && (best == range.filters.end() || at->rate > best->rate)) best = at;
  }
  if (best != range.filters.end()) {
    range.stream = *best;
    range.filters.erase(best);
  }
  return range;
}

void make_ranges(Draft& draft) {
  for (std::size_t i = 0; i < draft.branches.size(); ++i) {
    for (const auto& c : draft.branches[i]) {
      draft.ranges.push_back(range_of(c, static_cast<int>(i), draft.pattern.branches[i].heads));
    }
  }
}

}  // namespace weft::planner
