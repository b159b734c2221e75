// The statements of a pattern, one function a kind.

#include "compiler/ir/advice.h"
#include "compiler/ir/elaborate_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace weft::ir {
namespace {

using dsl::StatementKind, dsl::WordKind;

constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;

template <typename T, std::size_t N>
T enum_of(const std::string& word, const std::array<T, N>& all) {
  const auto* found = std::find_if(all.begin(), all.end(), [&](T t) { return word == to_string(t); });
  return found == all.end() ? all.front() : *found;
}

}  // namespace

/// Sizes and inputs come first, so that sets know them.
void PatternElaborator::header(const dsl::Statement& s) {
  if (findings_.full()) return;
  if (s.kind == StatementKind::heads) heads(s);
  if (s.kind == StatementKind::dim) dim(s);
  if (s.kind == StatementKind::tokens) tokens(s);
  if (s.kind == StatementKind::grid) grid(s);
  if (s.kind == StatementKind::input) input(s);
  if (s.kind != StatementKind::dtype) return;
  one_of(WordKind::dtype, s.word, s.name_range, "a dtype");
  run_.pattern.dtype = enum_of(s.word, std::array{DType::f32, DType::f16, DType::bf16});
  run_.pattern.dtype_range = s.range;
}

void PatternElaborator::statement(const dsl::Statement& s) {
  switch (s.kind) {
    case StatementKind::branch:
      return branch(s);
    case StatementKind::branches:
      return branches(s);
    case StatementKind::keep:
      if (SetPtr set = expressions_.set(*s.value, set_context())) all_.keeps.push_back(std::move(set));
      return;
    case StatementKind::combine:
      return combine(s);
    case StatementKind::scale:
      return scale(s);
    case StatementKind::score:
      factor(s, Place::score, "'score'", run_.pattern.score);
      if (run_.holes) advise_on_score(s, names_, findings_);
      return;
    case StatementKind::sink_logit:
      all_.sink_range = s.range;
      return factor(s, Place::phase, "'sink_logit'", run_.pattern.sink_logit);
    case StatementKind::weights:
      return weights(s);
    case StatementKind::dropout:
      return dropout(s);
    case StatementKind::ring:
      return ring(s);
    case StatementKind::schedule:
      return schedule(s);
    case StatementKind::heads:
    case StatementKind::dim:
    case StatementKind::dtype:
    case StatementKind::tokens:
    case StatementKind::grid:
    case StatementKind::input:
    case StatementKind::let:
    case StatementKind::use:
      return;
  }
}

void PatternElaborator::one_of(WordKind kind, const std::string& word, SourceRange place, std::string_view what) {
  if (dsl::is_one_of(kind, word)) return;
  auto& d = findings_.add(Code::unknown_word, place, fmt::format("'{}' is not {}", word, what));
  d.notes.push_back(fmt::format("it is one of {}", fmt::join(dsl::words_of(kind), ", ")));
  dsl::suggest(d, word, place, dsl::words_of(kind));
  if (const std::string_view known = dsl::word_elsewhere(word, kind); !known.empty()) {
    d.fix = Fix{place, std::string(known), fmt::format("write '{}'", known)};
  }
}

std::optional<std::int64_t> PatternElaborator::positive(const dsl::ExprPtr& e, const Context& context) {
  if (!e) return std::nullopt;
  const Value value = expressions_.integer(*e, context);
  return expressions_.within(value, *e, context.where, 1, kLargestSize) ? integer_of(value) : std::nullopt;
}

void PatternElaborator::heads(const dsl::Statement& s) {
  Pattern& p = run_.pattern;
  p.heads = positive(s.value, size_context("'heads'"));
  p.kv_heads = positive(s.second, size_context("the number of key/value heads"));
  p.heads_range = s.range;
  if (p.heads) run_.heads = p.heads;
  if (!p.heads || !p.kv_heads || *p.heads % *p.kv_heads == 0) return;
  findings_.add(Code::heads_multiple, {s.value->outer.begin, s.second->outer.end},
                fmt::format("{} heads are not a multiple of {} key/value heads", *p.heads, *p.kv_heads));
}

void PatternElaborator::dim(const dsl::Statement& s) {
  run_.pattern.dim = positive(s.value, size_context("'dim'"));
  run_.pattern.dim_v = positive(s.second, size_context("'dim … value'"));
  run_.pattern.dim_range = s.range;
}

void PatternElaborator::tokens(const dsl::Statement& s) {
  run_.pattern.tokens = {.kind = s.word == "any"           ? Tokens::Kind::any
                                 : s.word == "multiple_of" ? Tokens::Kind::multiple_of
                                                           : Tokens::Kind::exact,
                         .count = positive(s.value, size_context("the number of tokens")).value_or(0)};
}

void PatternElaborator::grid(const dsl::Statement& s) {
  for (const dsl::ExprPtr& extent : s.extents) {
    // What is not known yet has room for everything.
    const auto known = positive(extent, size_context("an extent of the grid"));
    run_.pattern.grid.push_back(known.value_or(kLargestSize));
  }
  if (s.extents.size() == 2 || s.extents.size() == 3) return;
  findings_.add(Code::argument_count, s.range,
                fmt::format("a grid has 2 or 3 extents, and {} {} given", s.extents.size(),
                            s.extents.size() == 1 ? "is" : "are"));
}

void PatternElaborator::input(const dsl::Statement& s) {
  one_of(WordKind::element, s.type, s.type_range, "a type of inputs");
  Input made{.name = s.word, .axes = {}, .range = s.name_range};
  made.type = enum_of(s.type, std::array{InputType::i32, InputType::u8, InputType::f32});
  constexpr std::array kWords = {"batch", "heads", "queries", "keys", "tokens", "blocks"};
  std::map<std::string, SourceRange> seen;
  for (const dsl::Axis& axis : s.axes) {
    const auto* word = std::find(kWords.begin(), kWords.end(), axis.word);
    made.axes.push_back({.kind = static_cast<Axis::Kind>(word - kWords.begin())});
    if (axis.extent) made.axes.back().extent = extent(axis).value_or(kLargestSize);
    if (axis.word != "batch" && axis.word != "heads") continue;
    const auto [first, is_new] = seen.emplace(axis.word, axis.range);
    if (is_new) continue;
    auto& d = findings_.add(Code::bad_axes, axis.range, fmt::format("an input has one axis '{}'", axis.word));
    d.places.push_back({first->second, "here already"});
  }
  run_.pattern.inputs.push_back(std::move(made));
}

std::optional<std::int64_t> PatternElaborator::extent(const dsl::Axis& axis) {
  const dsl::Expr& extent = *axis.extent;
  if (extent.kind != ExprKind::name || names_.find(extent.word) || dsl::find_variable(extent.word))
    return positive(axis.extent, size_context("an extent"));
  auto& d = findings_.add(Code::unknown_word, axis.range, fmt::format("'{}' is not an axis", extent.word));
  d.notes.push_back(fmt::format("an axis is one of {}, or an integer", fmt::join(dsl::words_of(WordKind::axis), ", ")));
  std::vector<std::string> candidates = dsl::words_of(WordKind::axis);
  for (const std::string& name : names_.list()) candidates.push_back(name);
  dsl::suggest(d, extent.word, axis.range, candidates);
  if (const std::string_view known = dsl::word_elsewhere(extent.word, WordKind::axis); !known.empty()) {
    d.fix = Fix{axis.range, std::string(known), fmt::format("write '{}'", known)};
  }
  return std::nullopt;
}

void PatternElaborator::combine(const dsl::Statement& s) {
  one_of(WordKind::combine, s.word, s.name_range, "a way to combine branches");
  all_.combine_range = s.range;
  run_.pattern.combine = enum_of(s.word, std::array{Combine::joint, Combine::unite, Combine::sum, Combine::mean});
  if (s.detached) run_.pattern.combine = Combine::joint_detached;
  if (!s.detached || s.word == "joint") return;
  auto& d = findings_.add(Code::lonely_detached, s.detached_range, "'detached' goes with 'joint' only");
  d.fix = Fix{{s.name_range.end, s.detached_range.end}, "", "leave it out"};
}

/// A number for each pair, or for each head.
void PatternElaborator::factor(const dsl::Statement& s, Place place, std::string where, ExprPtr& out) {
  const Context context{.variables = variables_at(place), .where = std::move(where), .inputs = true, .rounds = true};
  out = to_real(expressions_.number(*s.value, context)).expr;
}

void PatternElaborator::scale(const dsl::Statement& s) {
  ExprPtr& scale = run_.pattern.scale;
  factor(s, Place::pair, "'scale'", scale);
  if (!scale || scale->op != Op::constant || std::isfinite(scale->real)) return;
  findings_.add(Code::value_range, s.value->outer, "a scale is a finite number");
}

/// Without an expression the sum of the weights stays near 1 at any length.
void PatternElaborator::weights(const dsl::Statement& s) {
  one_of(WordKind::weighting, s.word, s.name_range, "a way to make weights of scores");
  ExprPtr weight;
  if (s.value) factor(s, Place::score, "'weights'", weight);
  if (s.word == "softmax" && s.value) {
    auto& d = findings_.add(Code::argument_count, s.value->outer, "'softmax' takes the score as it is");
    d.notes.emplace_back("what rewrites the score is the statement 'score'");
  }
  if (s.word != "sigmoid") return;
  all_.weights_range = s.range;
  const ExprPtr keys = apply(Op::log, {apply(Op::to_real, {variable(Variable::n_k)})});
  run_.pattern.sigmoid = s.value ? weight : apply(Op::subtract, {variable(Variable::s), keys}, s.range);
}

void PatternElaborator::dropout(const dsl::Statement& s) {
  const auto p = number_of(expressions_.number(*s.value, constant_context("'dropout'")));
  if (!p) return;
  run_.pattern.dropout = *p;
  if (*p >= 0 && *p < 1) return;
  findings_.add(Code::dropout_range, s.value->outer, fmt::format("the probability {} is not in [0, 1)", *p));
}

void PatternElaborator::ring(const dsl::Statement& s) {
  run_.pattern.ring = Ring{.ranks = positive(s.value, constant_context("the number of ranks"))};
  if (s.word.empty()) return;
  one_of(WordKind::layout, s.word, s.name_range, "a ring layout");
  run_.pattern.ring->layout = enum_of(
      s.word, std::array{RingLayout::automatic, RingLayout::contiguous, RingLayout::zigzag, RingLayout::striped});
}

void PatternElaborator::schedule(const dsl::Statement& s) {
  std::map<std::string, SourceRange> seen;
  const auto& keys = dsl::schedule_keys();
  for (const dsl::ScheduleEntry& entry : s.schedule) {
    const auto row =
        std::find_if(keys.begin(), keys.end(), [&](const dsl::KeyWord& key) { return key.name == entry.key; });
    if (row == keys.end()) {
      std::vector<std::string> names;
      for (const dsl::KeyWord& key : keys) names.emplace_back(key.name);
      auto& d = findings_.add(Code::unknown_key, entry.key_range, fmt::format("a schedule has no key '{}'", entry.key));
      d.notes.push_back(fmt::format("the keys are {}", fmt::join(names, ", ")));
      dsl::suggest(d, entry.key, entry.key_range, names);
      continue;
    }
    if (const auto [first, is_new] = seen.emplace(entry.key, entry.key_range); !is_new) {
      auto& d = findings_.add(Code::statement_twice, entry.key_range, fmt::format("'{}' is given twice", entry.key));
      d.places.push_back({first->second, "the first"});
    }
    const std::string what = fmt::format("'{}'", entry.key);
    const Value value = expressions_.integer(*entry.value, constant_context(what));
    if (expressions_.within(value, *entry.value, what, row->minimum) && integer_of(value))
      run_.pattern.schedule.push_back({entry.key, *integer_of(value), entry.key_range});
  }
}

}  // namespace weft::ir
