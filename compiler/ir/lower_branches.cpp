#include "compiler/ir/lower_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::ir {
namespace {

using Numbers = std::vector<std::int64_t>;

/// Head ranges must share out the heads: overlaps are errors, and so are gaps unless allowed.
void check_cover(Lowering& l, std::vector<HeadSet> ranges, bool gaps, SourceRange range) {
  std::sort(ranges.begin(), ranges.end(), [](const HeadSet& a, const HeadSet& b) { return a.lo < b.lo; });
  std::int64_t next = 0;
  for (const auto& heads : ranges) {
    if (heads.lo < next) {
      return l.report(revealed(Code::head_ranges, range, fmt::format("head {} is in two ranges", heads.lo)));
    }
    if (heads.lo > next && !gaps) {
      Diagnostic d = revealed(Code::head_ranges, range, fmt::format("heads {}..{} are in no range", next, heads.lo));
      d.notes.push_back("write partial([…]) to leave heads out on purpose");
      return l.report(std::move(d));
    }
    next = heads.hi;
  }
  if (l.pattern.heads && next < *l.pattern.heads && !gaps) {
    l.report(revealed(Code::head_ranges, range, fmt::format("heads {}..{} are in no range", next, *l.pattern.heads)));
  }
}

struct Policy {
  std::vector<HeadSet> heads;
  bool by_head = false;  ///< every branch runs on every head
};

std::optional<Policy> lower_ranges(Lowering& l, const Names& names, const dsl::Expr& list, std::size_t count,
                                   bool gaps) {
  Policy policy;
  for (const auto& item : list.args) {
    const auto range = lower_head_range(l, names, *item.value);
    if (!range) return std::nullopt;
    policy.heads.push_back(*range);
  }
  if (policy.heads.size() != count) {
    l.report(revealed(Code::list_lengths, list.range,
                      fmt::format("{} head ranges for {} branches", policy.heads.size(), count)));
    return std::nullopt;
  }
  check_cover(l, policy.heads, gaps, list.range);
  return policy;
}

std::optional<Policy> lower_policy(Lowering& l, const Names& names, const dsl::Expr* e, std::size_t count) {
  if (!e || (e->kind == dsl::ExprKind::name && e->word == "all")) {
    return Policy{.heads = std::vector<HeadSet>(count), .by_head = true};
  }
  if (e->kind == dsl::ExprKind::list) return lower_ranges(l, names, *e, count, false);
  if (e->kind == dsl::ExprKind::call) return lower_ranges(l, names, *e->args[0].value, count, true);
  Policy policy;
  const auto kind = e->word == "groups" ? HeadSet::Kind::group : HeadSet::Kind::group_last;
  for (std::size_t i = 0; i < count; ++i) {
    policy.heads.push_back(
        {.kind = kind, .index = static_cast<std::int64_t>(i), .count = static_cast<std::int64_t>(count)});
  }
  return policy;
}

std::optional<Numbers> lower_lengths(Lowering& l, const Names& names, const dsl::Expr& e, const char* what) {
  auto values = lower_integers(l, names, e);
  if (!values) return std::nullopt;
  for (const std::int64_t value : *values) {
    if (value >= 1 && value <= kLargestNumber) continue;
    const Code code = value < 1 ? Code::small_segment : Code::value_range;
    const std::string bound = value < 1 ? "least is 1" : fmt::format("largest is {}", kLargestNumber);
    l.report(revealed(code, e.range, fmt::format("a {} is {}; the {}", what, value, bound)));
    return std::nullopt;
  }
  return values;
}

/// Default phases of semantics section 4.
ExprPtr default_phase(bool by_head, std::int64_t i, std::int64_t rate, SourceRange range) {
  const ExprPtr of = by_head ? variable(Variable::h, range) : constant(i, range);
  return apply(Op::modulo, {of, constant(rate, range)}, range);
}

ExprPtr branch_phase(Lowering& l, const Names& names, const dsl::Expr& e, std::int64_t segment, std::int64_t rate,
                     std::int64_t i) {
  Names own{.outer = &names};
  own.values["segment"] = value_of(constant(segment));
  own.values["rate"] = value_of(constant(rate));
  own.values["i"] = value_of(constant(i));
  return lower_phase(l, own, e);
}

}  // namespace

std::optional<HeadSet> lower_head_range(Lowering& l, const Names& names, const dsl::Expr& e) {
  const auto lo = lower_integer(l, names, *e.args[0].value);
  const auto hi = lower_integer(l, names, *e.args[1].value);
  if (!lo || !hi) return std::nullopt;
  if (*lo < 0 || *lo >= *hi) {
    l.report(revealed(Code::head_ranges, e.range, fmt::format("the range {}..{} holds no heads", *lo, *hi)));
    return std::nullopt;
  }
  if (l.pattern.heads && *hi > *l.pattern.heads) {
    Diagnostic d = revealed(Code::head_ranges, e.range,
                            fmt::format("the range ends at {}, there are {} heads", *hi, *l.pattern.heads));
    d.places.push_back({l.pattern.heads_range, "heads are given here"});
    l.report(std::move(d));
    return std::nullopt;
  }
  return HeadSet{.kind = HeadSet::Kind::range, .lo = *lo, .hi = *hi};
}

std::vector<Branch> lower_branches(Lowering& l, const Names& names, const dsl::Statement& statement) {
  const auto actual = arguments(*statement.value, {"segments", "rates", "phase", "heads", "queries"});
  const auto segments = lower_lengths(l, names, *actual[0], "segment");
  const auto rates = lower_lengths(l, names, *actual[1], "rate");
  if (!segments || !rates) return {};
  if (segments->size() != rates->size()) {
    Diagnostic d = revealed(Code::list_lengths, actual[1]->range,
                            fmt::format("{} rates for {} segments", rates->size(), segments->size()));
    d.places.push_back({actual[0]->range, fmt::format("{} segments", segments->size())});
    l.report(std::move(d));
    return {};
  }
  const auto policy = lower_policy(l, names, actual[3], segments->size());
  if (!policy) return {};
  std::vector<Branch> branches;
  for (std::size_t i = 0; i < segments->size(); ++i) {
    const std::int64_t segment = (*segments)[i], rate = (*rates)[i], index = static_cast<std::int64_t>(i);
    ExprPtr phase = actual[2] ? branch_phase(l, names, *actual[2], segment, rate, index)
                              : default_phase(policy->by_head, index, rate, statement.value->range);
    if (!phase) return {};
    const SetPtr set = make_dilated(segment, rate, std::move(phase), actual[4] != nullptr, statement.value->range);
    branches.push_back({set, policy->heads[i], statement.range});
  }
  return branches;
}

}  // namespace weft::ir
