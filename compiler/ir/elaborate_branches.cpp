// Branches: the heads that they run on, and `branches dilated(…)`.

#include "compiler/ir/elaborate_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace weft::ir {
namespace {

/// Default phases of semantics section 4.
ExprPtr default_phase(bool by_head, std::int64_t i, std::int64_t rate, SourceRange range) {
  const ExprPtr of = by_head ? variable(Variable::h, range) : constant(i, range);
  return apply(Op::modulo, {of, constant(rate, range)}, range);
}

bool is_all(const dsl::Expr* policy) { return !policy || (policy->kind == ExprKind::name && policy->word == "all"); }

/// The ranges in `[…]` or `partial([…])`; null for policies that are words.
const dsl::Expr* ranges_of(const dsl::Expr* policy) {
  const bool partial = policy && policy->kind == ExprKind::call && !policy->args.empty();
  const dsl::Expr* list = partial ? policy->args.front().value.get() : policy;
  return list && list->kind == ExprKind::list ? list : nullptr;
}

}  // namespace

std::optional<HeadSet> Elaborator::head_range(const dsl::Expr& e) {
  const Context context = constant_context("a range of heads");
  if (e.kind != ExprKind::range) {
    wrong_type(e, value(e, context), "a range of heads, lo..hi,");
    return std::nullopt;
  }
  const Value first = integer(*e.args[0].value, context), end = integer(*e.args[1].value, context);
  const bool fine = within(first, *e.args[0].value, "the first head", 0, INT64_MAX, Code::head_ranges);
  const auto lo = integer_of(first), hi = integer_of(end);
  if (hi && run_.heads && *hi > *run_.heads) {
    auto& d = findings_.add(Code::head_ranges, e.outer,
                            fmt::format("the range ends at head {}, but there are {} heads", *hi, *run_.heads),
                            "the end is excluded");
    if (!run_.holes) d.places.push_back({run_.pattern.heads_range, "heads are given here"});
  }
  if (!fine || !lo || !hi) return std::nullopt;
  if (*lo < *hi) return HeadSet{.kind = HeadSet::Kind::range, .lo = *lo, .hi = *hi};
  findings_.add(Code::head_ranges, e.outer, fmt::format("'{}' holds no head", findings_.text(e.outer)),
                "the end is excluded");
  return std::nullopt;
}

std::optional<std::vector<HeadSet>> Elaborator::head_ranges(const dsl::Expr& list, bool gaps) {
  std::vector<HeadSet> ranges;
  for (const dsl::Arg& arg : list.args) {
    if (const auto known = head_range(*arg.value)) ranges.push_back(*known);
  }
  if (ranges.size() != list.args.size()) return std::nullopt;
  std::vector<std::size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return ranges[a].lo < ranges[b].lo; });
  const auto refuse_gap = [&](SourceRange place, std::int64_t head) {
    auto& d = findings_.add(Code::head_ranges, place, fmt::format("head {} is in no range", head));
    d.fix = Fix{list.outer, fmt::format("partial({})", findings_.whole(list.outer)), "say that it is meant"};
    return std::nullopt;
  };
  std::int64_t covered = 0;
  for (const std::size_t i : order) {
    const SourceRange place = list.args[i].value->outer;
    if (ranges[i].lo < covered) {
      findings_.add(Code::head_ranges, place, fmt::format("head {} is in an earlier range, too", ranges[i].lo));
      return std::nullopt;
    }
    if (ranges[i].lo > covered && !gaps) return refuse_gap(place, covered);
    covered = ranges[i].hi;
  }
  if (run_.heads && covered < *run_.heads && !gaps) return refuse_gap(list.outer, covered);
  return ranges;
}

bool Elaborator::is_policy(const dsl::Expr& e) {
  if (e.kind == ExprKind::name && e.word != "partial" && dsl::is_one_of(dsl::WordKind::policy, e.word)) return true;
  const bool partial = e.kind == ExprKind::call && e.word == "partial" && e.args.size() == 1;
  if ((partial ? *e.args[0].value : e).kind == ExprKind::list) return true;
  auto& d =
      findings_.add(Code::unknown_word, e.outer, fmt::format("'{}' is not a head policy", findings_.text(e.outer)));
  d.notes.push_back("the policies are all, groups, groups_last, [lo..hi, …] and partial([lo..hi, …])");
  if (e.kind == ExprKind::name) dsl::suggest(d, e.word, e.range, dsl::words_of(dsl::WordKind::policy));
  return false;
}

void PatternElaborator::add(Branch branch) {
  auto& branches = run_.pattern.branches;
  if (branches.size() > dsl::kMostBranches) return;
  branches.push_back(std::move(branch));
  if (branches.size() <= dsl::kMostBranches) return;
  findings_.add(Code::too_many, branches.back().range,
                fmt::format("a pattern has {} branches at most", dsl::kMostBranches));
}

void PatternElaborator::branch(const dsl::Statement& s) {
  SetPtr set = expressions_.set(*s.value, set_context());
  const auto heads = s.second ? expressions_.head_range(*s.second) : HeadSet{};
  if (set && heads) add({std::move(set), *heads, s.range});
}

void PatternElaborator::branches(const dsl::Statement& s) {
  const dsl::Expr& call = *s.value;
  if (call.kind != ExprKind::call || call.word != "dilated") {
    auto& d = findings_.add(Code::wrong_type, call.outer, "'branches' takes 'dilated(segments: …, rates: …)'");
    d.notes.push_back("a single branch is written 'branch'");
    return;
  }
  const std::vector<Parameter>& parameters = dsl::branches_parameters();
  const std::size_t before = findings_.count();
  const auto args = expressions_.match(call, parameters);
  if (findings_.count() == before && (!args[0] || !args[1])) {
    findings_.add(Code::argument_count, call.range,
                  fmt::format("'dilated' needs '{}'{}", args[0] ? "rates" : "segments",
                              args[0] || args[1] ? "" : " and 'rates'"));
  }
  std::vector<Value> values(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool by_branch = parameters[i].type == dsl::ArgType::branches_phase && !run_.holes;
    if (args[i] && !by_branch)
      values[i] = expressions_.argument(*args[i], parameters[i], "dilated", set_context(), call.range);
  }
  const auto segments = values[0].length, rates = values[1].length;
  if (segments && rates && *segments != *rates) {
    auto& d = findings_.add(Code::list_lengths, args[1]->outer,
                            fmt::format("segments and rates differ in number: {} and {}", *segments, *rates));
    d.places.push_back({args[0]->outer, "the segments"});
  }
  const std::optional<std::size_t> pairs = segments ? segments : rates;
  if (pairs == 0U) findings_.add(Code::list_lengths, call.range, "there are no segments, so this makes no branch");
  const dsl::Expr* ranges = ranges_of(args[3]);
  if (ranges && pairs && ranges->args.size() != *pairs) {
    findings_.add(Code::list_lengths, ranges->outer,
                  fmt::format("branches and ranges of heads differ in number: {} and {}", *pairs, ranges->args.size()));
  }
  if (!run_.holes && findings_.count() == before && segments && rates) make_branches(s, args, values);
}

void PatternElaborator::make_branches(const dsl::Statement& s, const std::vector<const dsl::Expr*>& args,
                                      const std::vector<Value>& values) {
  const Parameter& parameter = dsl::branches_parameters()[2];
  const auto heads = policy(args[3], *values[0].length);
  for (std::size_t i = 0; heads && i < heads->size(); ++i) {
    const Value& segment = (*values[0].items)[i];
    const Value& rate = (*values[1].items)[i];
    const auto number = static_cast<std::int64_t>(i);
    const ExprPtr phase = args[2]
                              ? expressions_.phase(*args[2], parameter, segment, rate, value_of(constant(number))).expr
                              : default_phase(is_all(args[3]), number, *integer_of(rate), s.value->range);
    if (!phase) return;
    add({make_dilated(*integer_of(segment), *integer_of(rate), phase, args[4] != nullptr, s.value->range), (*heads)[i],
         s.range});
  }
}

std::optional<std::vector<HeadSet>> PatternElaborator::policy(const dsl::Expr* e, std::size_t count) {
  if (is_all(e)) return std::vector<HeadSet>(count);
  if (const dsl::Expr* ranges = ranges_of(e)) return expressions_.head_ranges(*ranges, ranges != e);
  std::vector<HeadSet> groups;
  const auto kind = e->word == "groups" ? HeadSet::Kind::group : HeadSet::Kind::group_last;
  for (std::size_t i = 0; i < count; ++i) {
    groups.push_back({.kind = kind, .index = static_cast<std::int64_t>(i), .count = static_cast<std::int64_t>(count)});
  }
  return groups;
}

}  // namespace weft::ir
