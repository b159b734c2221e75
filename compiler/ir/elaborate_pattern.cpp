// The names of a pattern: parameters, inputs, lets, and those of the patterns that it uses.

#include "compiler/ir/elaborate_pattern.h"

#include "dsl/printer.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::ir {
namespace {

using dsl::StatementKind;

Value hole_of(dsl::ParamType type) {
  using dsl::ParamType;
  const bool reals = type == ParamType::real || type == ParamType::reals;
  const Kind kind = reals ? Kind::real : type == ParamType::boolean ? Kind::boolean : Kind::integer;
  const bool is_list = type == ParamType::integers || type == ParamType::reals;
  return is_list ? Value{.kind = Kind::list, .item = kind} : Value{.kind = kind};
}

}  // namespace

bool check_name(dsl::Findings& findings, const std::string& name, SourceRange place) {
  if (!dsl::is_reserved(name)) return true;
  findings.add(Code::reserved_word, place, fmt::format("'{}' is a word of the language and cannot be a name", name));
  return false;
}

Value fitted(Value value, dsl::ParamType type) {
  const Value wanted = hole_of(type);
  const bool is_list = wanted.kind == Kind::list;
  if (is_list && value.kind == Kind::list && value.item == Kind::unknown) value.item = wanted.item;
  if ((is_list ? wanted.item : wanted.kind) == Kind::real) value = to_real(std::move(value));
  return value.kind == wanted.kind && value.item == wanted.item ? value : Value{};
}

void define_constants(Elaboration& run, Names& constants) {
  const auto& all = run.file.constants;
  for (const dsl::ConstDef& constant : all) {
    if (!check_name(run.findings, constant.name, constant.name_range)) continue;
    if (const Symbol* first = constants.find(constant.name)) {
      auto& d =
          run.findings.add(Code::name_twice, constant.name_range, fmt::format("'{}' is defined twice", constant.name));
      d.places.push_back({first->place, "the first definition"});
      continue;
    }
    constants.define(constant.name, {.place = constant.name_range, .defined = false});
  }
  Elaborator expressions(run, constants);
  for (const dsl::ConstDef& constant : all) {
    Value value = expressions.value(*constant.value, constant_context("a constant"));
    Symbol* symbol = constants.find(constant.name);
    if (!symbol || symbol->place != constant.name_range) continue;
    if (value.kind == Kind::set) {
      expressions.wrong_type(*constant.value, value, "a number, a boolean or a list");
      value = {};
    }
    symbol->defined = true;
    symbol->value = std::move(value);
    symbol->effects = expressions.take_effects();
  }
}

PatternElaborator::PatternElaborator(Together& all, const dsl::PatternDef& pattern)
    : all_(all),
      run_(all.run),
      findings_(all.run.findings),
      pattern_(pattern),
      names_(&all.constants),
      expressions_(run_, names_) {}

void PatternElaborator::bind(const std::vector<Value>& given) {
  for (std::size_t i = 0; i < pattern_.params.size(); ++i)
    bind(pattern_.params[i], i < given.size() ? given[i] : Value{});
}

void PatternElaborator::bind(const dsl::Param& param, const Value& given) {
  Value value = given;
  if (given.kind == Kind::unknown && param.fallback) {
    // A default may be made of the parameters before it.
    const Value fallback = expressions_.value(*param.fallback, constant_context("a default"));
    value = fitted(fallback, param.type);
    if (value.kind == Kind::unknown)
      expressions_.wrong_type(*param.fallback, fallback, fmt::format("a value of type {}", dsl::to_string(param.type)));
  } else if (given.kind == Kind::unknown && !run_.holes) {
    findings_.add(Code::missing_parameter, param.range,
                  fmt::format("the parameter '{}' has no default and was not given a value", param.name));
  }
  if (value.length > dsl::kMostListItems) {
    findings_.add(Code::list_too_long, param.range,
                  fmt::format("'{}' has {} items; the most are {}", param.name, *value.length, dsl::kMostListItems));
  }
  define(param.name, {.kind = SymbolKind::param,
                      .place = param.name_range,
                      .value = run_.holes ? hole_of(param.type) : std::move(value)});
}

void PatternElaborator::open() {
  declare_inputs();
  announce_lets();
  for (const dsl::Statement& s : pattern_.statements) header(s);
  for (const dsl::Statement& s : pattern_.statements) {
    if (findings_.full()) return;
    if (s.kind == StatementKind::let) {
      let(s);
    } else if (s.kind == StatementKind::use) {
      use(s);
    } else {
      all_.rest.emplace_back(this, &s);
    }
  }
}

Definitions PatternElaborator::definitions() const {
  Definitions out;
  if (run_.holes) out.inputs = run_.pattern.inputs;
  for (const auto& [name, symbol] : names_.here()) {
    if (symbol.kind == SymbolKind::let) out.lets.emplace_back(name, symbol);
  }
  return out;
}

/// Names of a used pattern are also its user's, unless the user has one of its own.
void PatternElaborator::take(const dsl::PatternDef& used, const Definitions& definitions) {
  for (const auto& [name, input] : all_.uses.summary(used).inputs) {
    if (names_.find_here(name)) continue;
    names_.define(name, {.kind = SymbolKind::input,
                         .place = input->name_range,
                         .value = {.kind = Kind::input, .input = input},
                         .used = true});
  }
  for (const auto& [name, symbol] : definitions.lets) {
    if (names_.find_here(name)) continue;
    names_.define(name, symbol).used = true;
  }
  auto& inputs = run_.pattern.inputs;
  if (run_.holes) inputs.insert(inputs.end(), definitions.inputs.begin(), definitions.inputs.end());
}

void PatternElaborator::define(const std::string& name, Symbol symbol) {
  if (!check_name(findings_, name, symbol.place)) return;
  const Symbol* known = names_.find(name);
  if (known && known->place != symbol.place) {
    auto& d = findings_.add(Code::name_twice, symbol.place, fmt::format("'{}' is defined twice", name));
    d.places.push_back({known->place, "the first definition"});
    return;
  }
  names_.define(name, std::move(symbol));
}

void PatternElaborator::declare_inputs() {
  for (const dsl::Statement& s : pattern_.statements) {
    if (s.kind != StatementKind::input) continue;
    define(s.word, {.kind = SymbolKind::input, .place = s.name_range, .value = {.kind = Kind::input, .input = &s}});
  }
}

void PatternElaborator::announce_lets() {
  for (const dsl::Statement& s : pattern_.statements) {
    if (s.kind == StatementKind::let)
      define(s.word, {.kind = SymbolKind::let, .place = s.name_range, .defined = false});
  }
}

void PatternElaborator::report_unused() {
  for (const auto& [name, symbol] : names_.here()) {
    if (symbol.used || !symbol.defined) continue;
    const std::string_view what = symbol.kind == SymbolKind::param   ? "parameter"
                                  : symbol.kind == SymbolKind::input ? "input"
                                                                     : "definition";
    findings_.add(Code::unused_name, symbol.place, fmt::format("{} '{}' is never used", what, name));
  }
}

void PatternElaborator::let(const dsl::Statement& s) {
  (void)expressions_.take_effects();
  const Context anywhere{.variables = variables_at(Place::score),
                         .where = "a definition",
                         .inputs = true,
                         .rounds = true,
                         .deferred = true};
  Value value = expressions_.value(*s.value, anywhere);
  Effects effects = expressions_.take_effects();
  if (value.kind == Kind::input) {
    expressions_.wrong_type(*s.value, value, "a set or an expression");
    value = {};
  }
  if (value.kind == Kind::set) effects = {.needs_blocks = effects.needs_blocks, .uses = effects.uses};
  Symbol* symbol = names_.find_here(s.word);
  if (!symbol || symbol->place != s.name_range) return;  // Told already: it is defined twice, or reserved.
  symbol->defined = true;
  symbol->value = std::move(value);
  symbol->effects = std::move(effects);
}

void PatternElaborator::use(const dsl::Statement& s) {
  const dsl::Expr& call = *s.value;
  if (call.kind != ExprKind::call) {
    auto& d = findings_.add(Code::wrong_type, call.outer, "'use' takes a pattern with its arguments");
    if (call.kind == ExprKind::name) d.fix = Fix{call.outer, call.word + "()", "add the parentheses"};
    return;
  }
  const dsl::PatternDef* target = all_.uses.target(s);
  if (!target) {
    auto& d = findings_.add(Code::unknown_word, call.word_range,
                            fmt::format("there is no pattern '{}' in this file", call.word));
    return dsl::suggest(d, call.word, call.word_range, all_.uses.names());
  }
  const std::vector<Value> args = use_arguments(call, *target);
  if (run_.holes) return take(*target, all_.definitions[target]);
  if (findings_.failed()) return;
  PatternElaborator& used = *all_.used.emplace_back(std::make_unique<PatternElaborator>(all_, *target));
  used.bind(args);
  used.open();
  take(*target, used.definitions());
}

std::vector<Value> PatternElaborator::use_arguments(const dsl::Expr& call, const dsl::PatternDef& target) {
  std::vector<Parameter> parameters;
  for (const dsl::Param& param : target.params) parameters.push_back({.name = param.name, .required = !param.fallback});
  const auto args = expressions_.match(call, parameters);
  std::vector<Value> values(args.size());
  std::string missing;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const dsl::Param& param = target.params[i];
    if (!args[i]) {
      if (!param.fallback) missing += fmt::format("{}'{}'", missing.empty() ? "" : " and ", param.name);
      continue;
    }
    const Value found = expressions_.value(*args[i], constant_context("an argument of a pattern"));
    values[i] = fitted(found, param.type);
    if (values[i].kind == Kind::unknown)
      expressions_.wrong_type(*args[i], found, fmt::format("a value of type {}", dsl::to_string(param.type)));
  }
  if (missing.empty()) return values;
  auto& d = findings_.add(Code::argument_count, call.range, fmt::format("pattern '{}' needs {}", target.name, missing));
  d.places.push_back({target.name_range, "defined here"});
  return values;
}

}  // namespace weft::ir
