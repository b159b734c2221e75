// Calls of functions, and comprehensions.

#include "compiler/ir/elaborate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::ir {

Value Elaborator::call(const dsl::Expr& e, const Context& context) {
  const dsl::FunctionWord* function_word = dsl::find_function(e.word);
  const dsl::SetWord* set_word = dsl::find_set(e.word);
  if (function_word) return function(e, *function_word, context);
  if (set_word) return set_call(e, *set_word, context);
  if (const Symbol* known = names_.find(e.word)) {
    const bool tensor = known->value.kind == Kind::input || known->value.kind == Kind::list;
    auto& d = findings_.add(Code::not_callable, e.word_range,
                            fmt::format("'{}' takes no arguments: it is {}", e.word, describe(known->value)));
    if (tensor) d.notes.push_back(fmt::format("indices stand in square brackets: {}[…]", e.word));
    return {};
  }
  return unknown_call(e);
}

Value Elaborator::unknown_call(const dsl::Expr& e) {
  auto& d =
      findings_.add(Code::unknown_word, e.word_range, fmt::format("'{}' is neither a set nor a function", e.word));
  std::vector<std::string> candidates = dsl::set_names();
  for (const std::string& name : dsl::function_names()) candidates.push_back(name);
  dsl::suggest(d, e.word, e.word_range, candidates);
  if (const std::string_view known = dsl::word_elsewhere(e.word); !known.empty()) {
    d.fix = Fix{e.word_range, std::string(known), fmt::format("write '{}'", known)};
  }
  if (e.word == "range" && (e.args.size() == 1 || e.args.size() == 2)) {
    const std::string lo = e.args.size() == 1 ? "0" : findings_.whole(e.args[0].value->outer);
    d.fix = Fix{e.range, lo + ".." + findings_.whole(e.args.back().value->outer), "write a range"};
  }
  d.notes.emplace_back("all words: weft help sets, weft help functions");
  return {};
}

Value Elaborator::function(const dsl::Expr& e, const dsl::FunctionWord& word, const Context& context) {
  for (const dsl::Arg& arg : e.args) {
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
  if (word.rule == dsl::FunctionRule::rounding) return rounding(e, word, context);
  if (word.rule == dsl::FunctionRule::choice) return choice(e, context);
  std::vector<Value> args;
  bool known = true;
  for (const dsl::Arg& arg : e.args) {
    args.push_back(value(*arg.value, context));
    known &= args.back().kind != Kind::unknown;
  }
  if (!known) return {};
  using dsl::FunctionRule;
  const bool of_list =
      word.rule == FunctionRule::length || word.rule == FunctionRule::quantifier || word.rule == FunctionRule::total;
  return of_list ? over_list(e, word, args[0]) : of_numbers(e, word, std::move(args), context);
}

/// Scores, and indices in them, may round what a kernel computes; everything else what is known before.
Value Elaborator::rounding(const dsl::Expr& e, const dsl::FunctionWord& word, const Context& context) {
  Context inside = context;
  inside.strict = false;
  if (!context.rounds) inside.where = fmt::format("'{}' here", word.name);
  const Effects before = std::exchange(effects_, {});
  const Value arg = value(*e.args[0].value, inside);
  Effects own = std::exchange(effects_, before);
  const bool computed = arg.kind != Kind::integer && (own.variables != 0 || own.inputs || own.rounds);
  own.mixed = own.rounds = false;
  effects_.merge(own);
  if (arg.kind == Kind::unknown) return {};
  if (computed && !context.rounds) {
    auto& d = findings_.add(
        Code::mixed_numbers, e.range,
        fmt::format("'{}' rounds what a kernel computes, which {} does not allow", word.name, context.where));
    d.notes.emplace_back(kExact);
    return {};
  }
  effects_.rounds |= computed;
  if (is_number(arg.kind)) return rounded(e, word, arg);
  wrong_type(*e.args[0].value, arg, "a number");
  return {};
}

/// Integers stay as they are. What a kernel rounds is in f32, so that a number beside an integer may fall to either
/// side; halves go away from zero.
Value Elaborator::rounded(const dsl::Expr& e, const dsl::FunctionWord& word, const Value& arg) {
  if (arg.kind == Kind::integer || !arg.expr) return {.kind = Kind::integer, .expr = arg.expr};
  if (const auto known = number_of(arg)) {
    const double whole = word.name == "floor"  ? std::floor(*known)
                         : word.name == "ceil" ? std::ceil(*known)
                                               : std::round(*known);
    if (whole >= -0x1p63 && whole < 0x1p63) return value_of(constant(static_cast<std::int64_t>(whole), e.range));
    return troubled(Code::overflow, e, Kind::integer,
                    fmt::format("'{}' does not fit into 64 bits", findings_.text(e.outer)));
  }
  const auto make = [&](Op op, Args args) { return apply(op, std::move(args), e.range); };
  const auto below = [&](ExprPtr x) { return make(Op::floor, {std::move(x)}); };
  const ExprPtr& x = arg.expr;
  ExprPtr out = below(x);
  if (word.name == "ceil") out = make(Op::negate, {below(make(Op::negate, {x}))});
  if (word.name == "round") {
    const ExprPtr half = constant_real(0.5), is_negative = make(Op::less, {x, constant_real(0)});
    out = make(Op::select, {is_negative, make(Op::negate, {below(make(Op::subtract, {half, x}))}),
                            below(make(Op::add, {x, half}))});
  }
  return limited(value_of(std::move(out)), e.range);
}

/// `select(count > 1, rates[1], 1)` has no second rate where there is one.
Value Elaborator::choice(const dsl::Expr& e, const Context& context) {
  const Value condition = value(*e.args[0].value, context);
  const bool always = is_known(condition, true), never = is_known(condition, false);
  const dsl::Expr& a = *e.args[1].value;
  const dsl::Expr& b = *e.args[2].value;
  const Value yes = evaluated(a, context, never), no = evaluated(b, context, always);
  if (condition.kind == Kind::unknown || yes.kind == Kind::unknown || no.kind == Kind::unknown) return {};
  if (condition.kind != Kind::boolean) {
    wrong_type(*e.args[0].value, condition, "a boolean");
    return {};
  }
  const bool booleans = yes.kind == Kind::boolean && no.kind == Kind::boolean;
  for (const auto& [side, at] : {std::pair(&yes, &a), std::pair(&no, &b)}) {
    if (booleans || is_number(side->kind)) continue;
    wrong_type(*at, *side, "a number");
    return {};
  }
  const Kind kind = booleans ? Kind::boolean : join(e, a, yes.kind, b, no.kind, context);
  if (kind == Kind::unknown) return {};
  // A hole on the side that is not taken is no hole.
  const Value& taken = always ? yes : no;
  if (always || never) return kind == Kind::real ? to_real(taken) : taken;
  return made(e, kind, Op::select, {condition.expr, yes.expr, no.expr});
}

Value Elaborator::slope(const dsl::Expr& e, const dsl::FunctionWord& word, const Value& head, const Context& context) {
  if (head.kind != Kind::integer) {
    wrong_type(*e.args[0].value, head, "a head");
    return {};
  }
  effects_.variables |= bit_of("H");  // The slope depends on the number of heads.
  if ((context.variables & bit_of("H")) == 0) {
    findings_.add(Code::variable_not_here, e.range,
                  fmt::format("'{}' needs the heads, which {} does not know", word.name, context.where));
    return {};
  }
  return made(e, Kind::real, Op::alibi, {head.expr});
}

Value Elaborator::of_numbers(const dsl::Expr& e, const dsl::FunctionWord& word, std::vector<Value> args,
                             const Context& context) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (is_number(args[i].kind)) continue;
    wrong_type(*e.args[i].value, args[i], "a number");
    return {};
  }
  if (word.rule == dsl::FunctionRule::slope) return slope(e, word, args[0], context);
  Kind kind = Kind::real;
  if (word.rule == dsl::FunctionRule::join) {
    kind = args[0].kind;
    for (std::size_t i = 1; i < args.size() && kind != Kind::unknown; ++i)
      kind = join(e, *e.args[i - 1].value, kind, *e.args[i].value, args[i].kind, context);
    if (kind == Kind::unknown) return {};
  } else {
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (args[i].kind == Kind::real) continue;
      mixed(e,
            fmt::format("'{}' takes reals, and '{}' is an integer", word.name, findings_.text(e.args[i].value->outer)),
            context);
      if (context.strict) return {};
    }
  }
  Args operands;
  for (Value& arg : args) operands.push_back((kind == Kind::real ? to_real(std::move(arg)) : arg).expr);
  if (word.name == "softcap") {
    const ExprPtr cap = operands[1];
    const Value ratio = made(e, kind, Op::divide, std::move(operands));
    return ratio.expr ? made(e, kind, Op::multiply, {cap, made(e, kind, Op::tanh, {ratio.expr}).expr}) : ratio;
  }
  const Op op = *find_op(word.name, std::min<std::size_t>(args.size(), 2));
  return operands.size() == 1 ? made(e, kind, op, std::move(operands)) : chain(e, kind, op, operands);
}

Value Elaborator::over_list(const dsl::Expr& e, const dsl::FunctionWord& word, const Value& list) {
  const dsl::Expr& arg = *e.args[0].value;
  if (list.kind != Kind::list) {
    wrong_type(arg, list, "a list");
    return {};
  }
  if (word.rule == dsl::FunctionRule::length) {
    return list.length ? value_of(constant(static_cast<std::int64_t>(*list.length), e.range))
                       : Value{.kind = Kind::integer};
  }
  const bool empty = list.item == Kind::unknown, total = word.rule == dsl::FunctionRule::total;
  if (!empty && (total ? !is_number(list.item) : list.item != Kind::boolean)) {
    wrong_type(arg, list, total ? "a list of numbers" : "a list of booleans");
    return {};
  }
  const Kind kind = !total ? Kind::boolean : empty ? Kind::integer : list.item;
  if (!list.items) return {.kind = kind};
  Args items;
  for (const Value& item : *list.items) items.push_back(item.expr);
  return quantified(e, kind, items);
}

Value Elaborator::quantified(const dsl::Expr& e, Kind kind, const Args& items) {
  if (items.empty()) return value_of(e.word == "all" ? constant_bool(true, e.range) : zero_of(kind, e.range));
  return chain(e, kind, e.word == "any" ? Op::logical_or : e.word == "all" ? Op::logical_and : Op::add, items);
}

Value Elaborator::comprehension(const dsl::Expr& e, const Context& context) {
  const dsl::Expr& items = *e.args[0].value;
  const Value list = value(items, context);
  if (list.kind == Kind::unknown) return {};
  if (list.kind != Kind::list && list.kind != Kind::range) {
    wrong_type(items, list, "a list or a range");
    return {};
  }
  if (dsl::is_reserved(e.variable)) {
    findings_.add(Code::reserved_word, e.variable_range,
                  fmt::format("'{}' is a word of the language and cannot be a name", e.variable));
    return {};
  }
  const Kind item = list.kind == Kind::range || list.item == Kind::unknown ? Kind::integer : list.item;
  if (run_.holes) return body(e, {.kind = item}, context);
  const auto known = items_of(list, items);
  if (!known) return {};
  if (known->empty()) {
    ++run_.unreachable;
    const Value none = body(e, {.kind = item, .expr = zero_of(item, e.range)}, context);
    --run_.unreachable;
    return none.kind == Kind::unknown ? none : quantified(e, none.kind, {});
  }
  Args bodies;
  Kind kind = Kind::unknown;
  for (const Value& one : *known) {
    const Value each = body(e, one, context);
    if (!each.expr) return {};
    kind = each.kind;
    bodies.push_back(each.expr);
  }
  return quantified(e, kind, bodies);
}

/// The body for one item.
Value Elaborator::body(const dsl::Expr& e, Value item, const Context& context) {
  const dsl::Expr& body = *e.args[1].value;
  bound_.push_back({e.variable, std::move(item)});
  const Value found = value(body, context);
  bound_.pop_back();
  if (found.kind == Kind::unknown) return {};
  const bool sum = e.word == "sum";
  if (sum ? !is_number(found.kind) : found.kind != Kind::boolean) {
    wrong_type(body, found, sum ? "a number" : "a boolean");
    return {};
  }
  return run_.holes ? Value{.kind = found.kind} : found;
}

std::shared_ptr<const std::vector<Value>> Elaborator::items_of(const Value& value, const dsl::Expr& e) {
  if (value.kind == Kind::list || !value.items) return value.items;
  const std::int64_t lo = (*value.items)[0].expr->integer, hi = (*value.items)[1].expr->integer;
  if (hi > lo && static_cast<std::uint64_t>(hi) - static_cast<std::uint64_t>(lo) > dsl::kMostListItems) {
    if (run_.unreachable > 0) return std::make_shared<const std::vector<Value>>();
    findings_.add(Code::list_too_long, e.outer, fmt::format("a list has {} items at most", dsl::kMostListItems));
    return nullptr;
  }
  std::vector<Value> items;
  for (std::int64_t i = lo; i < hi; ++i) items.push_back(value_of(constant(i, e.range)));
  return std::make_shared<const std::vector<Value>>(std::move(items));
}

}  // namespace weft::ir
