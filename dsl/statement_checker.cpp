// The statements of a pattern, one function a kind.

#include "dsl/advice.h"
#include "dsl/pattern_checker.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::dsl {
namespace {

Context set_context() { return {.variables = variables_at(Place::pair), .where = "a set"}; }

}  // namespace

void PatternChecker::statement(const Statement& s) {
  switch (s.kind) {
    case StatementKind::heads:
      return heads(s);
    case StatementKind::dim:
      return dim(s);
    case StatementKind::dtype:
      return one_of(WordKind::dtype, s.word, s.name_range, "a dtype");
    case StatementKind::tokens:
      return tokens(s);
    case StatementKind::grid:
      return grid(s);
    case StatementKind::input:
      return input(s);
    case StatementKind::let:
      return let(s);
    case StatementKind::branch:
      return branch(s);
    case StatementKind::branches:
      return branches(s);
    case StatementKind::keep:
      return expressions_.set(*s.value, set_context());
    case StatementKind::combine:
      return combine(s);
    case StatementKind::scale:
      (void)expressions_.number(*s.value, {.variables = variables_at(Place::pair), .where = "'scale'", .rounds = true});
      return;
    case StatementKind::score:
      (void)expressions_.number(*s.value,
                                {.variables = variables_at(Place::score), .where = "'score'", .rounds = true});
      return advise_on_score(s, scope_, findings_);
    case StatementKind::sink_logit:
      (void)expressions_.number(*s.value,
                                {.variables = variables_at(Place::phase), .where = "'sink_logit'", .rounds = true});
      return;
    case StatementKind::weights:
      return weights(s);
    case StatementKind::dropout:
      return dropout(s);
    case StatementKind::ring:
      return ring(s);
    case StatementKind::schedule:
      return schedule(s);
    case StatementKind::use:
      return use(s);
  }
}

void PatternChecker::one_of(WordKind kind, const std::string& word, SourceRange place, std::string_view what) {
  if (is_one_of(kind, word)) return;
  auto& d = findings_.add(Code::unknown_word, place, fmt::format("'{}' is not {}", word, what));
  d.notes.push_back(fmt::format("it is one of {}", fmt::join(words_of(kind), ", ")));
  suggest(d, word, place, words_of(kind));
  if (const std::string_view known = word_elsewhere(word, kind); !known.empty()) {
    d.fix = Fix{place, std::string(known), fmt::format("write '{}'", known)};
  }
}

void PatternChecker::positive(const Expr& e, const Context& context) {
  expressions_.at_least(expressions_.integer(e, context), e, context.where, 1);
}

void PatternChecker::heads(const Statement& s) {
  const Typed all = expressions_.integer(*s.value, size_context("'heads'"));
  expressions_.at_least(all, *s.value, "'heads'", 1);
  if (!s.second) return;
  const Typed groups = expressions_.integer(*s.second, size_context("'heads … kv'"));
  expressions_.at_least(groups, *s.second, "the number of key/value heads", 1);
  const auto* h = all.value ? all.value->integer() : nullptr;
  const auto* g = groups.value ? groups.value->integer() : nullptr;
  if (!h || !g || *h < 1 || *g < 1 || *h % *g == 0) return;
  findings_.add(Code::heads_multiple, {s.value->outer.begin, s.second->outer.end},
                fmt::format("{} heads are not a multiple of {} key/value heads", *h, *g));
}

void PatternChecker::dim(const Statement& s) {
  positive(*s.value, size_context("'dim'"));
  if (s.second) positive(*s.second, size_context("'dim … value'"));
}

void PatternChecker::tokens(const Statement& s) {
  if (s.value) positive(*s.value, size_context("the number of tokens"));
}

void PatternChecker::grid(const Statement& s) {
  for (const ExprPtr& extent : s.extents) positive(*extent, size_context("an extent of the grid"));
  if (s.extents.size() == 2 || s.extents.size() == 3) return;
  findings_.add(Code::argument_count, s.range,
                fmt::format("a grid has 2 or 3 extents, and {} {} given", s.extents.size(),
                            s.extents.size() == 1 ? "is" : "are"));
}

void PatternChecker::input(const Statement& s) {
  one_of(WordKind::element, s.type, s.type_range, "a type of inputs");
  const Axis* batch = nullptr;
  const Axis* heads = nullptr;
  for (const Axis& a : s.axes) {
    axis(a);
    if (a.word != "batch" && a.word != "heads") continue;
    const Axis*& first = a.word == "batch" ? batch : heads;
    if (first) {
      auto& d = findings_.add(Code::bad_axes, a.range, fmt::format("an input has one axis '{}'", a.word));
      d.places.push_back({first->range, "here already"});
    }
    first = &a;
  }
}

void PatternChecker::axis(const Axis& axis) {
  if (!axis.extent) return;
  const Expr& extent = *axis.extent;
  if (extent.kind == ExprKind::name && !scope_.find(extent.word) && !find_variable(extent.word)) {
    auto& d = findings_.add(Code::unknown_word, axis.range, fmt::format("'{}' is not an axis", extent.word));
    d.notes.push_back(fmt::format("an axis is one of {}, or an integer", fmt::join(words_of(WordKind::axis), ", ")));
    std::vector<std::string> candidates = words_of(WordKind::axis);
    for (const std::string& name : scope_.names()) candidates.push_back(name);
    suggest(d, extent.word, axis.range, candidates);
    if (const std::string_view known = word_elsewhere(extent.word, WordKind::axis); !known.empty()) {
      d.fix = Fix{axis.range, std::string(known), fmt::format("write '{}'", known)};
    }
    return;
  }
  positive(extent, size_context("an extent"));
}

void PatternChecker::branch(const Statement& s) {
  expressions_.set(*s.value, set_context());
  if (s.second) (void)expressions_.head_range(*s.second);
}

void PatternChecker::branches(const Statement& s) {
  const Expr& call = *s.value;
  if (call.kind != ExprKind::call || call.word != "dilated") {
    auto& d = findings_.add(Code::wrong_type, call.outer, "'branches' takes 'dilated(segments: …, rates: …)'");
    d.notes.push_back("a single branch is written 'branch'");
    return;
  }
  const std::vector<Parameter>& parameters = branches_parameters();
  const std::size_t before = findings_.count();
  const auto args = expressions_.match(call, parameters);
  if (findings_.count() == before && (!args[0] || !args[1])) {
    findings_.add(Code::argument_count, call.range,
                  fmt::format("'dilated' needs '{}'{}", args[0] ? "rates" : "segments",
                              args[0] || args[1] ? "" : " and 'rates'"));
  }
  std::optional<std::size_t> lengths[2];
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!args[i]) continue;
    if (i < 2) {
      lengths[i] = expressions_.integers(*args[i], parameters[i]).length;
    } else {
      expressions_.argument(*args[i], parameters[i], "dilated", set_context(), call.range);
    }
  }
  if (lengths[0] && lengths[1] && *lengths[0] != *lengths[1]) {
    auto& d = findings_.add(Code::list_lengths, args[1]->outer,
                            fmt::format("segments and rates differ in number: {} and {}", *lengths[0], *lengths[1]));
    d.places.push_back({args[0]->outer, "the segments"});
  }
  const Expr* policy = args[3] && args[3]->kind == ExprKind::call ? args[3]->args.front().value.get() : args[3];
  const std::optional<std::size_t> pairs = lengths[0] ? lengths[0] : lengths[1];
  if (pairs == 0U) findings_.add(Code::list_lengths, call.range, "there are no segments, so this makes no branch");
  if (!policy || policy->kind != ExprKind::list || !pairs || policy->args.size() == *pairs) return;
  findings_.add(Code::list_lengths, policy->outer,
                fmt::format("branches and ranges of heads differ in number: {} and {}", *pairs, policy->args.size()));
}

void PatternChecker::combine(const Statement& s) {
  one_of(WordKind::combine, s.word, s.name_range, "a way to combine branches");
  if (!s.detached || s.word == "joint") return;
  auto& d = findings_.add(Code::lonely_detached, s.detached_range, "'detached' goes with 'joint' only");
  d.fix = Fix{{s.name_range.end, s.detached_range.end}, "", "leave it out"};
}

void PatternChecker::weights(const Statement& s) {
  one_of(WordKind::weighting, s.word, s.name_range, "a way to make weights of scores");
  if (!s.value) return;
  (void)expressions_.number(*s.value, {.variables = variables_at(Place::score), .where = "'weights'", .rounds = true});
  if (s.word != "softmax") return;
  auto& d = findings_.add(Code::argument_count, s.value->outer, "'softmax' takes the score as it is");
  d.notes.emplace_back("what rewrites the score is the statement 'score'");
}

void PatternChecker::dropout(const Statement& s) {
  const Typed typed = expressions_.number(*s.value, constant_context("'dropout'"));
  const auto p = typed.value ? typed.value->number() : std::nullopt;
  if (!p || (*p >= 0 && *p < 1)) return;
  findings_.add(Code::dropout_range, s.value->outer, fmt::format("the probability {} is not in [0, 1)", *p));
}

void PatternChecker::ring(const Statement& s) {
  if (s.value) positive(*s.value, constant_context("the number of ranks"));
  if (!s.word.empty()) one_of(WordKind::layout, s.word, s.name_range, "a ring layout");
}

void PatternChecker::schedule(const Statement& s) {
  std::map<std::string, SourceRange> seen;
  const auto& keys = schedule_keys();
  for (const ScheduleEntry& entry : s.schedule) {
    const auto row = std::find_if(keys.begin(), keys.end(), [&](const KeyWord& key) { return key.name == entry.key; });
    if (row == keys.end()) {
      std::vector<std::string> names;
      for (const KeyWord& key : keys) names.emplace_back(key.name);
      auto& d = findings_.add(Code::unknown_key, entry.key_range, fmt::format("a schedule has no key '{}'", entry.key));
      d.notes.push_back(fmt::format("the keys are {}", fmt::join(names, ", ")));
      suggest(d, entry.key, entry.key_range, names);
      continue;
    }
    if (const auto [first, is_new] = seen.emplace(entry.key, entry.key_range); !is_new) {
      auto& d = findings_.add(Code::statement_twice, entry.key_range, fmt::format("'{}' is given twice", entry.key));
      d.places.push_back({first->second, "the first"});
    }
    const std::string what = fmt::format("'{}'", entry.key);
    expressions_.at_least(expressions_.integer(*entry.value, constant_context(what)), *entry.value, what, row->minimum);
  }
}

}  // namespace weft::dsl
