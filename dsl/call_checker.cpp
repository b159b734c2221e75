// Types of calls of functions, of comprehensions and of what stands before `[…]`.

#include "dsl/expression_checker.h"

#include <fmt/format.h>

namespace weft::dsl {

Typed ExpressionChecker::call(const Expr& e, const Context& context) {
  const FunctionWord* function_word = find_function(e.word);
  const SetWord* set_word = find_set(e.word);
  if (function_word) return function(e, *function_word, context);
  if (set_word) return set_call(e, *set_word, context);
  if (const Symbol* known = scope_.find(e.word)) {
    const bool tensor = known->typed.kind == Kind::input || known->typed.kind == Kind::list;
    auto& d = findings_.add(Code::not_callable, e.word_range,
                            fmt::format("'{}' takes no arguments: it is {}", e.word, describe(known->typed)));
    if (tensor) d.notes.push_back(fmt::format("indices stand in square brackets: {}[…]", e.word));
    return {};
  }
  return unknown_call(e);
}

Typed ExpressionChecker::unknown_call(const Expr& e) {
  auto& d =
      findings_.add(Code::unknown_word, e.word_range, fmt::format("'{}' is neither a set nor a function", e.word));
  std::vector<std::string> candidates = set_names();
  for (const std::string& name : function_names()) candidates.push_back(name);
  suggest(d, e.word, e.word_range, candidates);
  if (const std::string_view known = word_elsewhere(e.word); !known.empty()) {
    d.fix = Fix{e.word_range, std::string(known), fmt::format("write '{}'", known)};
  }
  if (e.word == "range" && (e.args.size() == 1 || e.args.size() == 2)) {
    const std::string lo = e.args.size() == 1 ? "0" : findings_.whole(e.args[0].value->outer);
    d.fix = Fix{e.range, lo + ".." + findings_.whole(e.args.back().value->outer), "write a range"};
  }
  d.notes.emplace_back("all words: weft help sets, weft help functions");
  return {};
}

Typed ExpressionChecker::function(const Expr& e, const FunctionWord& word, const Context& context) {
  for (const Arg& arg : e.args) {
    if (arg.name.empty()) continue;
    findings_.add(Code::unknown_argument, arg.name_range,
                  fmt::format("the arguments of '{}' have no names", word.name));
    return {};
  }
  if (e.args.size() < word.least || e.args.size() > word.most) {
    findings_.add(Code::argument_count, e.range,
                  fmt::format("'{}' takes {}{} argument{}, and {} {} given", word.name,
                              word.least == word.most ? "" : "at least ", word.least, word.least == 1 ? "" : "s",
                              e.args.size(), e.args.size() == 1 ? "is" : "are"));
    return {};
  }
  if (word.rule == FunctionRule::rounding) return rounding(e, word, context);
  std::vector<Typed> args;
  bool known = true;
  for (const Arg& arg : e.args) {
    args.push_back(check(*arg.value, context));
    known &= args.back().kind != Kind::unknown;
  }
  return known ? function_type(e, word, args, context) : Typed{};
}

/// Scores, and indices in them, may round what a kernel computes; everything else what is known before.
Typed ExpressionChecker::rounding(const Expr& e, const FunctionWord& word, const Context& context) {
  Context inside = context;
  inside.strict = false;
  if (!context.rounds) inside.where = fmt::format("'{}' here", word.name);
  const Effects before = std::exchange(effects_, {});
  const Typed arg = check(*e.args[0].value, inside);
  const Effects own = std::exchange(effects_, before);
  effects_.variables |= own.variables;
  effects_.needs_blocks |= own.needs_blocks;
  effects_.inputs |= own.inputs;
  if (arg.kind == Kind::unknown) return {};
  const bool computed = arg.kind != Kind::integer && (own.variables != 0 || own.inputs || own.rounds);
  if (computed && !context.rounds) {
    auto& d = findings_.add(
        Code::mixed_numbers, e.range,
        fmt::format("'{}' rounds what a kernel computes, which {} does not allow", word.name, context.where));
    d.notes.emplace_back(kExact);
    return {};
  }
  effects_.rounds |= computed;
  return function_type(e, word, {arg}, context);
}

Typed ExpressionChecker::function_type(const Expr& e, const FunctionWord& word, const std::vector<Typed>& args,
                                       const Context& context) {
  const bool numbers = word.rule == FunctionRule::join || word.rule == FunctionRule::real ||
                       word.rule == FunctionRule::slope || word.rule == FunctionRule::rounding;
  for (std::size_t i = 0; numbers && i < args.size(); ++i) {
    if (is_number(args[i].kind)) continue;
    wrong_type(*e.args[i].value, args[i], "a number");
    return {};
  }
  Kind kind = Kind::real;
  if (word.rule == FunctionRule::length || word.rule == FunctionRule::quantifier || word.rule == FunctionRule::total) {
    return over_list(e, word, args[0]);
  }
  if (word.rule == FunctionRule::join) {
    kind = args[0].kind;
    for (std::size_t i = 1; i < args.size() && kind != Kind::unknown; ++i) {
      kind = join(e, *e.args[i - 1].value, {.kind = kind}, *e.args[i].value, args[i], context);
    }
  } else if (word.rule == FunctionRule::rounding) {
    kind = Kind::integer;
  } else if (word.rule == FunctionRule::choice) {
    if (args[0].kind != Kind::boolean) {
      wrong_type(*e.args[0].value, args[0], "a boolean");
      return {};
    }
    const bool booleans = args[1].kind == Kind::boolean && args[2].kind == Kind::boolean;
    for (std::size_t i = 1; i < 3 && !booleans; ++i) {
      if (is_number(args[i].kind)) continue;
      wrong_type(*e.args[i].value, args[i], "a number");
      return {};
    }
    kind = booleans ? Kind::boolean : join(e, *e.args[1].value, args[1], *e.args[2].value, args[2], context);
  } else if (word.rule == FunctionRule::slope) {
    if (args[0].kind != Kind::integer) {
      wrong_type(*e.args[0].value, args[0], "a head");
      return {};
    }
    effects_.variables |= bit_of("H");  // The slope depends on the number of heads.
    if ((context.variables & bit_of("H")) == 0) {
      findings_.add(Code::variable_not_here, e.range,
                    fmt::format("'{}' needs the heads, which {} does not know", word.name, context.where));
      return {};
    }
  } else {
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (args[i].kind == Kind::real) continue;
      mixed(e,
            fmt::format("'{}' takes reals, and '{}' is an integer", word.name, findings_.text(e.args[i].value->outer)),
            context);
      if (context.strict) return {};
    }
  }
  if (kind == Kind::unknown) return {};
  std::vector<Value> values;
  for (const Typed& arg : args) {
    if (arg.value) values.push_back(*arg.value);
  }
  return folded(e, kind, values.size() == args.size() ? fold_function(e.word, values) : Folded{});
}

Typed ExpressionChecker::over_list(const Expr& e, const FunctionWord& word, const Typed& list) {
  const Expr& arg = *e.args[0].value;
  if (list.kind != Kind::list) {
    wrong_type(arg, list, "a list");
    return {};
  }
  if (word.rule == FunctionRule::length) {
    Typed result{.kind = Kind::integer};
    if (list.length) result.value = Value{static_cast<std::int64_t>(*list.length)};
    return result;
  }
  const bool empty = list.item == Kind::unknown;
  if (word.rule == FunctionRule::quantifier) {
    if (!empty && list.item != Kind::boolean) {
      wrong_type(arg, list, "a list of booleans");
      return {};
    }
    return {.kind = Kind::boolean};
  }
  if (!empty && !is_number(list.item)) {
    wrong_type(arg, list, "a list of numbers");
    return {};
  }
  return {.kind = empty ? Kind::integer : list.item};
}

Typed ExpressionChecker::comprehension(const Expr& e, const Context& context) {
  const Expr& items = *e.args[0].value;
  const Expr& body = *e.args[1].value;
  const Typed list = check(items, context);
  if (list.kind == Kind::unknown) return {};
  if (list.kind != Kind::list && list.kind != Kind::range) {
    wrong_type(items, list, "a list or a range");
    return {};
  }
  if (is_reserved(e.variable)) {
    findings_.add(Code::reserved_word, e.variable_range,
                  fmt::format("'{}' is a word of the language and cannot be a name", e.variable));
    return {};
  }
  const Kind item = list.kind == Kind::range || list.item == Kind::unknown ? Kind::integer : list.item;
  bound_.push_back({e.variable, {.kind = item}});
  const Typed typed = check(body, context);
  bound_.pop_back();
  if (typed.kind == Kind::unknown) return {};
  const bool sum = e.word == "sum";
  if (sum ? !is_number(typed.kind) : typed.kind != Kind::boolean) {
    wrong_type(body, typed, sum ? "a number" : "a boolean");
    return {};
  }
  return {.kind = typed.kind};
}

Typed ExpressionChecker::index(const Expr& e, const Context& context) {
  const Expr& base = *e.args[0].value;
  if (base.kind == ExprKind::name && !scope_.find(base.word) && !find_variable(base.word)) {
    auto& d =
        findings_.add(Code::undeclared_input, base.range,
                      fmt::format("'{}' is indexed like an input, but no input of that name is declared", base.word));
    suggest(d, base.word, base.range, scope_.names());
    if (!d.fix) d.notes.push_back(fmt::format("inputs are declared like this: input {}: f32[heads, 257];", base.word));
    return {};
  }
  const Typed typed = check(base, context);
  if (typed.kind == Kind::unknown) return {};
  if (typed.kind == Kind::input) return input_index(e, *typed.input, context);
  if (typed.kind == Kind::list) return list_index(e, typed, context);
  wrong_type(base, typed, "an input or a list");
  return {};
}

void ExpressionChecker::index_bound(const Expr& e, const Typed& index, std::int64_t extent, std::string_view what) {
  if (!index.value || !index.value->integer()) return;
  const std::int64_t at = *index.value->integer();
  if (at >= 0 && at < extent) return;
  findings_.add(Code::index_range, e.outer, fmt::format("{} has {} elements, and this is number {}", what, extent, at),
                "the first is number 0");
}

Typed ExpressionChecker::list_index(const Expr& e, const Typed& base, const Context& context) {
  if (e.args.size() != 2) {
    findings_.add(Code::index_count, e.range, fmt::format("a list has one index, and {} are given", e.args.size() - 1));
    return {};
  }
  Context strict = context;
  strict.strict = true;
  strict.where = "an index";
  const Expr& at = *e.args[1].value;
  const Typed typed = integer(at, strict);
  if (typed.kind == Kind::unknown) return {};
  const std::size_t before = base.length.value_or(0);
  if (base.length) index_bound(at, typed, static_cast<std::int64_t>(before), "the list");
  Typed result{.kind = base.item};
  const std::int64_t* number = typed.value ? typed.value->integer() : nullptr;
  if (base.value && number && *number >= 0 && static_cast<std::size_t>(*number) < base.value->items()->size()) {
    result.value = (*base.value->items())[static_cast<std::size_t>(*number)];
  }
  return result;
}

Typed ExpressionChecker::input_index(const Expr& e, const Statement& input, const Context& context) {
  const std::size_t given = e.args.size() - 1;
  if (given != input.axes.size()) {
    auto& d =
        findings_.add(Code::index_count, e.range,
                      fmt::format("'{}' has {} ax{}, and {} ind{} given", input.word, input.axes.size(),
                                  input.axes.size() == 1 ? "is" : "es", given, given == 1 ? "ex is" : "ices are"));
    d.places.push_back({input.name_range, "declared here"});
    return {};
  }
  Context strict = context;
  strict.strict = true;
  strict.where = "an index";
  for (std::size_t i = 0; i < given; ++i) {
    const Expr& at = *e.args[i + 1].value;
    const Typed typed = integer(at, strict);
    const Axis& axis = input.axes[i];
    if (axis.extent && axis.extent->kind == ExprKind::integer) {
      index_bound(at, typed, axis.extent->integer, fmt::format("axis {} of '{}'", i, input.word));
    }
    if (axis.word == "blocks" && !context.in_blocks && !context.deferred) {
      auto& d =
          findings_.add(Code::needs_blocks, e.range,
                        fmt::format("'{}' goes by block numbers, which exist inside 'blocks(…)' only", input.word));
      d.places.push_back({axis.range, "this axis"});
      return {};
    }
  }
  effects_.inputs = true;
  if (!context.in_blocks) {
    for (const Axis& axis : input.axes) effects_.needs_blocks |= axis.word == "blocks";
  }
  return {.kind = input.type == "f32" ? Kind::real : Kind::integer};
}

}  // namespace weft::dsl
