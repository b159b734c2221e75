#include "dsl/uses.h"

#include "dsl/words.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::dsl {
namespace {

bool stands_once(StatementKind kind) {
  const auto& table = statement_words();
  return std::any_of(table.begin(), table.end(),
                     [kind](const StatementWord& row) { return row.kind == kind && row.once; });
}

/// How many branches a `branches` statement makes, as far as its text says.
std::size_t branches_of(const Statement& statement) {
  if (!statement.value || statement.value->kind != ExprKind::call) return 0;
  for (const Arg& arg : statement.value->args) {
    if (arg.name == "segments" && arg.value->kind == ExprKind::list) return arg.value->args.size();
  }
  return 0;
}

}  // namespace

Uses::Uses(const File& file, Findings& findings) : findings_(findings) {
  for (const PatternDef& pattern : file.patterns) patterns_.emplace(pattern.name, &pattern);
}

const PatternDef* Uses::target(const Statement& use) const {
  const auto found = patterns_.find(use.value->word);
  return found == patterns_.end() ? nullptr : found->second;
}

std::vector<std::string> Uses::names() const {
  constexpr std::size_t kEnough = 1000;
  std::vector<std::string> list;
  for (const auto& [name, pattern] : patterns_) {
    if (list.size() < kEnough) list.push_back(name);
  }
  std::sort(list.begin(), list.end());
  return list;
}

const Summary& Uses::summary(const PatternDef& pattern) {
  Entry& entry = entries_[&pattern];
  if (entry.state == Entry::State::fresh) visit(pattern, entry);
  return entry.summary;
}

void Uses::visit(const PatternDef& pattern, Entry& entry) {
  entry.state = Entry::State::visiting;
  ++depth_;
  entry.summary.statements = pattern.statements.size();
  for (const Statement& statement : pattern.statements) {
    if (statement.kind == StatementKind::use) add_use(statement, entry);
    if (statement.kind == StatementKind::input) add_input(statement, nullptr, entry.summary);
    if (statement.kind == StatementKind::branch) ++entry.summary.branches;
    if (statement.kind == StatementKind::branches) entry.summary.branches += branches_of(statement);
    if (stands_once(statement.kind)) add_once(statement.kind, statement, nullptr, entry.summary);
  }
  --depth_;
  entry.state = Entry::State::done;
}

void Uses::add_use(const Statement& use, Entry& entry) {
  if (use.value->kind != ExprKind::call && use.value->kind != ExprKind::name) return;
  const PatternDef* used = target(use);
  if (!used) return;
  Entry& other = entries_[used];
  if (other.state == Entry::State::visiting) {
    auto& d = findings_.add(Code::use_cycle, use.range, fmt::format("pattern '{}' uses itself in the end", used->name));
    d.places.push_back({used->name_range, "defined here"});
    return;
  }
  used_.insert(used);
  if (depth_ <= kDeepestUse) (void)summary(*used);
  const bool too_deep = other.state == Entry::State::fresh || other.height == kDeepestUse;
  entry.height = std::max(entry.height, other.height + 1);
  if (too_deep) {
    findings_.add(Code::nested_too_deep, use.range,
                  fmt::format("patterns use each other more than {} deep", kDeepestUse));
  }
  entry.summary.branches = std::min(entry.summary.branches + other.summary.branches, kMostStatements);
  entry.summary.statements = std::min(entry.summary.statements + other.summary.statements, kMostStatements);
  for (const auto& [kind, statement] : other.summary.once) add_once(kind, *statement, &use, entry.summary);
  for (const auto& [name, input] : other.summary.inputs) add_input(*input, &use, entry.summary);
}

void Uses::add_once(StatementKind kind, const Statement& statement, const Statement* use, Summary& summary) {
  const auto [place, is_new] = summary.once.emplace(kind, &statement);
  if (is_new) return;
  auto& d = findings_.add(Code::statement_twice, use ? use->range : statement.range,
                          fmt::format("'{}' may stand once, and here it stands for the second time", spelling(kind)));
  d.places.push_back({place->second->range, "the first"});
  if (use && place->second != &statement) d.places.push_back({statement.range, "what 'use' takes"});
}

void Uses::add_input(const Statement& input, const Statement* use, Summary& summary) {
  if (summary.inputs.size() == kMostInputs) return;
  const auto [same, is_new] = summary.inputs.emplace(input.word, &input);
  if (is_new && summary.inputs.size() == kMostInputs) {
    findings_.add(Code::too_many, use ? use->range : input.range,
                  fmt::format("a pattern has fewer than {} inputs", kMostInputs));
  }
  // Those of one pattern are compared with each other where its names are defined.
  if (is_new || !use) return;
  auto& d = findings_.add(Code::name_twice, use->range, fmt::format("input '{}' is declared twice", input.word));
  d.places.push_back({same->second->name_range, "declared here"});
}

}  // namespace weft::dsl
