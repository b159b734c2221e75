// The names of a pattern: parameters, inputs, lets.

#include "dsl/pattern_checker.h"

#include "dsl/printer.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::dsl {
namespace {

Typed param_typed(ParamType type) {
  switch (type) {
    case ParamType::integer:
      return {.kind = Kind::integer};
    case ParamType::real:
      return {.kind = Kind::real};
    case ParamType::boolean:
      return {.kind = Kind::boolean};
    case ParamType::integers:
      return {.kind = Kind::list, .item = Kind::integer};
    case ParamType::reals:
      return {.kind = Kind::list, .item = Kind::real};
  }
  return {};
}

/// Sizes are known first, then definitions in the order of the text, then everything else: a set
/// may use a name that is defined below it.
int stage_of(StatementKind kind) {
  switch (kind) {
    case StatementKind::heads:
    case StatementKind::dim:
    case StatementKind::dtype:
    case StatementKind::tokens:
    case StatementKind::grid:
    case StatementKind::input:
      return 0;
    case StatementKind::let:
    case StatementKind::use:
      return 1;
    case StatementKind::branch:
    case StatementKind::branches:
    case StatementKind::keep:
    case StatementKind::combine:
    case StatementKind::scale:
    case StatementKind::score:
    case StatementKind::sink_logit:
    case StatementKind::weights:
    case StatementKind::dropout:
    case StatementKind::ring:
    case StatementKind::schedule:
      return 2;
  }
  return 2;
}

}  // namespace

bool check_name(Findings& findings, const std::string& name, SourceRange place) {
  if (!is_reserved(name)) return true;
  findings.add(Code::reserved_word, place, fmt::format("'{}' is a word of the language and cannot be a name", name));
  return false;
}

bool fits(const Typed& typed, ParamType type) {
  const Typed wanted = param_typed(type);
  if (typed.kind == Kind::integer && wanted.kind == Kind::real) return true;
  if (typed.kind != wanted.kind) return false;
  return typed.kind != Kind::list || typed.item == wanted.item || typed.item == Kind::unknown ||
         (typed.item == Kind::integer && wanted.item == Kind::real);
}

PatternChecker::PatternChecker(const PatternDef& pattern, Scope& constants, Uses& uses, Definitions& definitions,
                               Findings& findings)
    : pattern_(pattern),
      findings_(findings),
      uses_(uses),
      scope_(&constants),
      definitions_(definitions),
      expressions_(findings, scope_) {}

void PatternChecker::run() {
  const Summary& summary = uses_.summary(pattern_);
  if (summary.branches > kMostBranches) {
    findings_.add(Code::too_many, pattern_.name_range,
                  fmt::format("pattern '{}' has {} branches; at most {} are allowed", pattern_.name, summary.branches,
                              kMostBranches));
  }
  params();
  declare_inputs();
  announce_lets();
  fixed_sizes(summary);
  for (const int stage : {0, 1, 2}) {
    for (const Statement& s : pattern_.statements) {
      if (findings_.full()) return;
      if (stage_of(s.kind) == stage) statement(s);
    }
  }
  if (!uses_.is_used(pattern_)) report_unused();
  auto& defined = definitions_[&pattern_];
  for (const auto& [name, symbol] : scope_.here()) {
    if (symbol.kind == SymbolKind::let) defined.emplace_back(name, symbol);
  }
}

void PatternChecker::take(const PatternDef& used) {
  for (const auto& [name, input] : uses_.summary(used).inputs) {
    if (scope_.find_here(name)) continue;
    scope_.define(name, {.kind = SymbolKind::input,
                         .place = input->name_range,
                         .typed = {.kind = Kind::input, .input = input},
                         .used = true});
  }
  for (const auto& [name, symbol] : definitions_[&used]) {
    if (scope_.find_here(name)) continue;
    scope_.define(name, symbol).used = true;
  }
}

void PatternChecker::define(const std::string& name, Symbol symbol) {
  if (!check_name(findings_, name, symbol.place)) return;
  Symbol* known = scope_.find(name);
  if (known && known->place != symbol.place) {
    auto& d = findings_.add(Code::name_twice, symbol.place, fmt::format("'{}' is defined twice", name));
    d.places.push_back({known->place, "the first definition"});
    return;
  }
  scope_.define(name, std::move(symbol));
}

void PatternChecker::params() {
  for (const Param& param : pattern_.params) {
    // A default may be made of the parameters before it.
    const Typed typed = param.fallback ? expressions_.check(*param.fallback, constant_context("a default")) : Typed{};
    if (typed.kind != Kind::unknown && !fits(typed, param.type)) {
      expressions_.wrong_type(*param.fallback, typed, fmt::format("a value of type {}", to_string(param.type)));
    }
    define(param.name, {.kind = SymbolKind::param, .place = param.name_range, .typed = param_typed(param.type)});
  }
}

void PatternChecker::declare_inputs() {
  for (const Statement& s : pattern_.statements) {
    if (s.kind != StatementKind::input) continue;
    define(s.word, {.kind = SymbolKind::input, .place = s.name_range, .typed = {.kind = Kind::input, .input = &s}});
  }
}

void PatternChecker::announce_lets() {
  for (const Statement& s : pattern_.statements) {
    if (s.kind == StatementKind::let)
      define(s.word, {.kind = SymbolKind::let, .place = s.name_range, .defined = false});
  }
}

void PatternChecker::fixed_sizes(const Summary& summary) {
  const auto find = [&](StatementKind kind) {
    const auto found = summary.once.find(kind);
    return found == summary.once.end() ? nullptr : found->second;
  };
  const Statement* grid = find(StatementKind::grid);
  expressions_.set_grid(grid ? grid->extents.size() : 0);
  const Statement* heads = find(StatementKind::heads);
  if (heads && heads->value && heads->value->kind == ExprKind::integer) expressions_.set_heads(heads->value->integer);
}

void PatternChecker::report_unused() {
  for (const auto& [name, symbol] : scope_.here()) {
    if (symbol.used || !symbol.defined) continue;
    const std::string_view what = symbol.kind == SymbolKind::param   ? "parameter"
                                  : symbol.kind == SymbolKind::input ? "input"
                                                                     : "definition";
    findings_.add(Code::unused_name, symbol.place, fmt::format("{} '{}' is never used", what, name));
  }
}

void PatternChecker::let(const Statement& s) {
  (void)expressions_.take_effects();
  const Context anywhere{
      .variables = variables_at(Place::score), .where = "a definition", .rounds = true, .deferred = true};
  const Typed typed = expressions_.check(*s.value, anywhere);
  Effects effects = expressions_.take_effects();
  if (typed.kind == Kind::input) expressions_.wrong_type(*s.value, typed, "a set or an expression");
  if (typed.kind == Kind::set) effects = {.needs_blocks = effects.needs_blocks};
  Symbol* symbol = scope_.find_here(s.word);
  if (!symbol || symbol->place != s.name_range) return;  // Told already: it is defined twice, or reserved.
  symbol->defined = true;
  symbol->typed = typed.kind == Kind::input ? Typed{} : typed;
  symbol->effects = effects;
}

void PatternChecker::use(const Statement& s) {
  const Expr& call = *s.value;
  if (call.kind != ExprKind::call) {
    auto& d = findings_.add(Code::wrong_type, call.outer, "'use' takes a pattern with its arguments");
    if (call.kind == ExprKind::name) d.fix = Fix{call.outer, call.word + "()", "add the parentheses"};
    return;
  }
  if (const PatternDef* target = uses_.target(s)) {
    use_arguments(call, *target);
    return take(*target);
  }
  auto& d = findings_.add(Code::unknown_word, call.word_range,
                          fmt::format("there is no pattern '{}' in this file", call.word));
  suggest(d, call.word, call.word_range, uses_.names());
}

void PatternChecker::use_arguments(const Expr& call, const PatternDef& target) {
  std::vector<Parameter> parameters;
  for (const Param& param : target.params) parameters.push_back({.name = param.name, .required = !param.fallback});
  const auto args = expressions_.match(call, parameters);
  std::string missing;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Param& param = target.params[i];
    if (!args[i]) {
      if (!param.fallback) missing += fmt::format("{}'{}'", missing.empty() ? "" : " and ", param.name);
      continue;
    }
    const Typed typed = expressions_.check(*args[i], constant_context("an argument of a pattern"));
    if (typed.kind == Kind::unknown || fits(typed, param.type)) continue;
    expressions_.wrong_type(*args[i], typed, fmt::format("a value of type {}", to_string(param.type)));
  }
  if (missing.empty()) return;
  auto& d = findings_.add(Code::argument_count, call.range, fmt::format("pattern '{}' needs {}", target.name, missing));
  d.places.push_back({target.name_range, "defined here"});
}

}  // namespace weft::dsl
