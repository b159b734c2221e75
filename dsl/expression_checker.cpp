#include "dsl/expression_checker.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::dsl {
namespace {

Typed of_kind(Kind kind) { return {.kind = kind}; }

std::string_view plural(Kind kind) {
  if (kind == Kind::integer) return "integers";
  if (kind == Kind::real) return "reals";
  if (kind == Kind::boolean) return "booleans";
  return kind == Kind::range ? "ranges" : "items";
}

}  // namespace

Context constant_context(std::string where) {
  return {.variables = variables_at(Place::constant), .where = std::move(where)};
}

Context size_context(std::string where) {
  Context context = constant_context(std::move(where));
  context.sizes = true;
  return context;
}

std::string describe(const Typed& typed) {
  switch (typed.kind) {
    case Kind::unknown:
      return "unknown";
    case Kind::set:
      return "a set";
    case Kind::integer:
      return "an integer";
    case Kind::real:
      return "a real";
    case Kind::boolean:
      return "a boolean";
    case Kind::list:
      return typed.length == 0U ? "an empty list" : fmt::format("a list of {}", plural(typed.item));
    case Kind::range:
      return "a range";
    case Kind::input:
      return "a whole input";
  }
  return "";
}

Typed ExpressionChecker::check(const Expr& e, const Context& context) {
  if (findings_.full()) return {};
  switch (e.kind) {
    case ExprKind::integer:
      return {.kind = Kind::integer, .value = Value{e.integer}};
    case ExprKind::real:
      return {.kind = Kind::real, .value = Value{e.real}};
    case ExprKind::boolean:
      return {.kind = Kind::boolean, .value = Value{e.boolean}};
    case ExprKind::name:
      return name(e, context);
    case ExprKind::list:
      return list(e, context);
    case ExprKind::range:
      return range(e, context);
    case ExprKind::call:
      return call(e, context);
    case ExprKind::comprehension:
      return comprehension(e, context);
    case ExprKind::index:
      return index(e, context);
    case ExprKind::unary:
      return unary(e, context);
    case ExprKind::binary:
      return binary(e, context);
    case ExprKind::compare:
      return compare(e, context);
  }
  return {};
}

Typed ExpressionChecker::list(const Expr& e, const Context& context) {
  Typed result{.kind = Kind::list, .length = e.args.size()};
  auto values = std::make_shared<std::vector<Value>>();
  for (const Arg& arg : e.args) {
    const Typed item = check(*arg.value, context);
    if (item.kind == Kind::unknown) return {};
    const bool fits = is_number(item.kind) || item.kind == Kind::boolean || item.kind == Kind::range;
    const bool alike =
        result.item == Kind::unknown || result.item == item.kind || (is_number(result.item) && is_number(item.kind));
    if (!fits || !alike) {
      wrong_type(*arg.value, item, fits ? fmt::format("a list of {}", plural(result.item)) : "a list");
      return {};
    }
    if (result.item != Kind::real) result.item = item.kind;
    if (item.value) values->push_back(*item.value);
  }
  if (values->size() == e.args.size()) result.value = Value{Values(std::move(values))};
  return result;
}

Typed ExpressionChecker::range(const Expr& e, const Context& context) {
  const Typed lo = integer(*e.args[0].value, context);
  const Typed hi = integer(*e.args[1].value, context);
  return of_kind(lo.kind == Kind::unknown || hi.kind == Kind::unknown ? Kind::unknown : Kind::range);
}

Typed ExpressionChecker::name(const Expr& e, const Context& context) {
  for (auto bound = bound_.rbegin(); bound != bound_.rend(); ++bound) {
    if (bound->name == e.word) return bound->typed;
  }
  Symbol* known = scope_.find(e.word);
  const VariableWord* word = find_variable(e.word);
  const bool own_number = word && (word->place == Place::own || word->place == Place::branches);
  if (known && own_number && (context.variables & bit_of(e.word)) != 0) {
    auto& d = findings_.add(Code::hidden_name, e.range, fmt::format("'{}' is the branch's own number here", e.word),
                            "not the one defined above");
    d.places.push_back({known->place, "hidden inside the phase"});
    known->used = true;
    known = nullptr;
  }
  if (known) return symbol(e, *known, context);
  // `segment` is a set, too.
  if (word && (e.word != "segment" || (context.variables & bit_of(e.word)) != 0)) return variable(e, e.word, context);
  if (const SetWord* set = find_set(e.word)) {
    if (e.word == "axial" && grid_ == 0U) {
      findings_.add(Code::needs_grid, e.range, "'axial' needs a 'grid' statement");
    }
    if (set->parameters.empty()) return of_kind(Kind::set);
    std::string list;
    for (const Parameter& p : set->parameters) {
      if (p.required) list += fmt::format("{}{}", list.empty() ? "" : ", ", p.name);
    }
    findings_.add(Code::not_callable, e.range,
                  fmt::format("the set '{}' needs arguments: {}({})", e.word, e.word, list));
    return {};
  }
  if (find_function(e.word)) {
    findings_.add(Code::not_callable, e.range, fmt::format("the function '{}' needs arguments", e.word));
    return {};
  }
  return unknown_name(e);
}

Typed ExpressionChecker::symbol(const Expr& e, Symbol& symbol, const Context& context) {
  symbol.used = true;
  if (context.sizes && symbol.kind == SymbolKind::let) {
    auto& d = findings_.add(Code::variable_not_here, e.range,
                            fmt::format("'{}' is a 'let', which has no value in {}", e.word, context.where));
    d.places.push_back({symbol.place, "defined here"});
    d.notes.push_back("sizes are made of constants and parameters");
    return {};
  }
  if (!symbol.defined) {
    auto& d = findings_.add(Code::used_early, e.range, fmt::format("'{}' is used before its definition", e.word));
    d.places.push_back({symbol.place, "defined here"});
    return {};
  }
  if (const Variables missing = symbol.effects.variables & ~context.variables; missing != 0) {
    for (const VariableWord& row : variable_words()) {
      if ((bit_of(row.name) & missing) == 0) continue;
      auto& d =
          findings_.add(Code::variable_not_here, e.range,
                        fmt::format("'{}' reads '{}', which has no value in {}", e.word, row.name, context.where));
      d.places.push_back({symbol.place, "defined here"});
      return {};
    }
  }
  if (symbol.effects.mixed && context.strict) {
    auto& d =
        findings_.add(Code::mixed_numbers, e.range,
                      fmt::format("'{}' mixes integers and reals, which {} does not allow", e.word, context.where));
    d.places.push_back({symbol.place, "defined here"});
    return {};
  }
  if (symbol.effects.rounds && !context.rounds) {
    auto& d = findings_.add(
        Code::mixed_numbers, e.range,
        fmt::format("'{}' rounds what a kernel computes, which {} does not allow", e.word, context.where));
    d.places.push_back({symbol.place, "defined here"});
    d.notes.emplace_back(kExact);
    return {};
  }
  if (symbol.effects.needs_blocks && !context.in_blocks) {
    auto& d =
        findings_.add(Code::needs_blocks, e.range, fmt::format("'{}' has a meaning inside 'blocks(…)' only", e.word));
    d.places.push_back({symbol.place, "defined here"});
    return {};
  }
  effects_.variables |= symbol.effects.variables;
  effects_.mixed |= symbol.effects.mixed;
  effects_.inputs |= symbol.effects.inputs;
  effects_.rounds |= symbol.effects.rounds;
  effects_.needs_blocks |= symbol.effects.needs_blocks;
  return symbol.typed;
}

Typed ExpressionChecker::variable(const Expr& e, std::string_view word, const Context& context) {
  const Variables bit = bit_of(word);
  if ((context.variables & bit) == 0) {
    auto& d =
        findings_.add(Code::variable_not_here, e.range, fmt::format("'{}' has no value in {}", e.word, context.where));
    if (find_variable(word)->place == Place::own) {
      d.notes.push_back(fmt::format("'{}' is a branch's own number inside the phase of 'dilated(…)'", word));
    } else if (find_variable(word)->place == Place::branches) {
      d.notes.push_back(fmt::format("'{}' is a branch's number inside the phase of 'branches dilated(…)'", word));
    } else if (context.variables == 0) {
      d.notes.push_back("only constants and parameters are known before a kernel runs");
    }
    return {};
  }
  effects_.variables |= bit;
  return of_kind(word == "s" ? Kind::real : Kind::integer);
}

Typed ExpressionChecker::unknown_name(const Expr& e) {
  if (const std::string_view known = word_elsewhere(e.word); !known.empty()) {
    auto& d = findings_.add(Code::unknown_word, e.range, fmt::format("'{}' is called '{}' here", e.word, known));
    d.fix = Fix{e.range, std::string(known), fmt::format("write '{}'", known)};
    return {};
  }
  std::vector<std::string> candidates = scope_.names();
  for (const auto& list : {set_names(), function_names()})
    candidates.insert(candidates.end(), list.begin(), list.end());
  for (const VariableWord& row : variable_words()) {
    if (row.name.size() > 1 && row.place != Place::own) candidates.emplace_back(row.name);
  }
  for (const std::string& literal : words_of(WordKind::literal)) candidates.push_back(literal);
  auto& d =
      findings_.add(Code::unknown_word, e.range, fmt::format("'{}' is not a name or word that is known here", e.word));
  suggest(d, e.word, e.range, candidates);
  d.notes.emplace_back("all words: weft help sets, weft help functions, weft help variables");
  return {};
}

void ExpressionChecker::wrong_type(const Expr& e, const Typed& found, std::string_view wanted) {
  if (found.kind == Kind::unknown) return;
  auto& d =
      findings_.add(Code::wrong_type, e.outer,
                    fmt::format("'{}' is {}, but {} is wanted here", findings_.text(e.outer), describe(found), wanted));
  if (found.kind == Kind::input) d.notes.push_back("an element of an input is written with indices: bias[h, q - k]");
}

Typed ExpressionChecker::integer(const Expr& e, const Context& context) {
  Typed typed = check(e, context);
  if (typed.kind == Kind::integer || typed.kind == Kind::unknown) return typed;
  wrong_type(e, typed, "an integer");
  return {};
}

Typed ExpressionChecker::number(const Expr& e, const Context& context) {
  Typed typed = check(e, context);
  if (is_number(typed.kind) || typed.kind == Kind::unknown) return typed;
  wrong_type(e, typed, "a number");
  return {};
}

Typed ExpressionChecker::boolean(const Expr& e, const Context& context) {
  Typed typed = check(e, context);
  if (typed.kind == Kind::boolean || typed.kind == Kind::unknown) return typed;
  wrong_type(e, typed, "a boolean");
  return {};
}

void ExpressionChecker::set(const Expr& e, const Context& context) {
  // Conditions are let through here, to be told apart from nonsense below.
  Context loose = context;
  loose.variables = variables_at(Place::pair);
  const Typed typed = check(e, loose);
  if (typed.kind == Kind::set || typed.kind == Kind::unknown) return;
  auto& d =
      findings_.add(Code::not_a_set, e.outer,
                    fmt::format("'{}' is {}, but a set is wanted here", findings_.text(e.outer), describe(typed)));
  if (typed.kind != Kind::boolean) return;
  d.label = "a condition makes a set inside 'where(…)' only";
  d.fix = Fix{e.outer, fmt::format("where({})", findings_.whole(e.range)), "put it into 'where(…)'"};
}

Typed ExpressionChecker::integers(const Expr& e, const Parameter& parameter) {
  const Typed typed = check(e, constant_context(fmt::format("the {}", parameter.name)));
  if (typed.kind == Kind::unknown) return {};
  if (typed.kind != Kind::list || (typed.item != Kind::integer && typed.item != Kind::unknown)) {
    wrong_type(e, typed, "a list of integers");
    return {};
  }
  if (e.kind != ExprKind::list) return typed;
  for (std::size_t i = 0; typed.value && i < e.args.size(); ++i) {
    const Typed item{.kind = Kind::integer, .value = (*typed.value->items())[i]};
    at_least(item, *e.args[i].value, fmt::format("each of the {}", parameter.name), parameter.minimum, parameter.below);
  }
  return typed;
}

void ExpressionChecker::at_least(const Typed& typed, const Expr& e, std::string_view what, std::int64_t minimum,
                                 Code code) {
  if (!typed.value || !typed.value->integer() || *typed.value->integer() >= minimum) return;
  findings_.add(code, e.outer,
                fmt::format("{} must be at least {}, and this is {}", what, minimum, *typed.value->integer()));
}

std::optional<std::pair<std::int64_t, std::int64_t>> ExpressionChecker::head_range(const Expr& e) {
  const Context context = constant_context("a range of heads");
  if (e.kind != ExprKind::range) {
    const Typed typed = check(e, context);
    if (typed.kind != Kind::unknown) wrong_type(e, typed, "a range of heads, lo..hi,");
    return std::nullopt;
  }
  const Typed lo = integer(*e.args[0].value, context);
  const Typed hi = integer(*e.args[1].value, context);
  at_least(lo, *e.args[0].value, "the first head", 0, Code::head_ranges);
  if (!hi.value || !hi.value->integer()) return std::nullopt;
  const std::int64_t last = *hi.value->integer();
  if (heads_ && last > *heads_) {
    findings_.add(Code::head_ranges, e.outer,
                  fmt::format("the range ends at head {}, but there are {} heads", last, *heads_),
                  "the end is excluded");
  }
  if (!lo.value || !lo.value->integer()) return std::nullopt;
  if (*lo.value->integer() >= last) {
    findings_.add(Code::head_ranges, e.outer, fmt::format("'{}' holds no head", findings_.text(e.outer)),
                  "the end is excluded");
    return std::nullopt;
  }
  return std::pair(*lo.value->integer(), last);
}

}  // namespace weft::dsl
