// Types of operators: sets, booleans and numbers share spellings, and here they are told apart.

#include "dsl/expression_checker.h"
#include "dsl/operators.h"

#include <fmt/format.h>

#include <cmath>

namespace weft::dsl {
namespace {

bool is_set_operator(Operator op) {
  return op == Operator::unite || op == Operator::intersect || op == Operator::subtract;
}

bool is_list_or_range(Kind kind) { return kind == Kind::list || kind == Kind::range; }

}  // namespace

Typed ExpressionChecker::folded(const Expr& e, Kind kind, const Folded& folded) {
  if (folded.trouble == Trouble::overflow) {
    findings_.add(Code::overflow, e.outer, fmt::format("'{}' does not fit into 64 bits", findings_.text(e.outer)));
    return {};
  }
  if (folded.trouble == Trouble::zero_division) {
    findings_.add(Code::zero_division, e.outer, fmt::format("'{}' divides by zero", findings_.text(e.outer)));
    return {};
  }
  return {.kind = kind, .value = folded.value};
}

Typed ExpressionChecker::unary(const Expr& e, const Context& context) {
  const Expr& operand = *e.args[0].value;
  const Typed typed = check(operand, context);
  if (typed.kind == Kind::unknown) return {};
  if (e.op == Operator::complement) {
    if (typed.kind == Kind::set) return typed;
    if (typed.kind == Kind::boolean) {
      wrong_connective(e, "!", "not ", "booleans");
    } else {
      wrong_type(operand, typed, "a set");
    }
    return {};
  }
  if (e.op == Operator::logical_not) {
    if (typed.kind == Kind::boolean) {
      return folded(e, Kind::boolean, typed.value ? fold(e.op, *typed.value) : Folded{});
    }
    if (typed.kind == Kind::set) {
      wrong_connective(e, "not", "!", "sets");
    } else {
      wrong_type(operand, typed, "a boolean");
    }
    return {};
  }
  if (typed.kind == Kind::set) {
    wrong_connective(e, "-", "!", "sets");
    return {};
  }
  if (!is_number(typed.kind)) {
    wrong_type(operand, typed, "a number");
    return {};
  }
  return folded(e, typed.kind, typed.value ? fold(e.op, *typed.value) : Folded{});
}

void ExpressionChecker::wrong_connective(const Expr& e, std::string_view written, std::string_view meant,
                                         std::string_view kind) {
  const bool is_unary = e.kind == ExprKind::unary;
  const SourceRange gap = is_unary ? SourceRange{e.range.begin, e.args[0].value->outer.begin}
                                   : SourceRange{e.args[0].value->outer.end, e.args[1].value->outer.begin};
  const SourceRange sign = findings_.find_sign(gap, written);
  const std::string_view shown = meant.back() == ' ' ? meant.substr(0, meant.size() - 1) : meant;
  auto& d = findings_.add(Code::wrong_connective, sign, fmt::format("'{}' does not join {}", written, kind));
  if (is_unary) d.message = fmt::format("'{}' does not apply to {}", written, kind);
  // `not x` loses its blank with the word.
  const bool blank = is_unary && written == "not" && sign.end < e.args[0].value->outer.begin;
  d.fix = Fix{{sign.begin, blank ? sign.end + 1 : sign.end}, std::string(meant), fmt::format("write '{}'", shown)};
}

Typed ExpressionChecker::binary(const Expr& e, const Context& context) {
  const Typed left = check(*e.args[0].value, context);
  const Typed right = check(*e.args[1].value, context);
  if (left.kind == Kind::unknown || right.kind == Kind::unknown) return {};
  if (e.op == Operator::logical_and || e.op == Operator::logical_or) return logical(e, left, right);
  if (left.kind == Kind::set || right.kind == Kind::set) return sets(e, left, right);
  if (e.op == Operator::unite || e.op == Operator::intersect) {
    // Also for numbers: `q > 3 & k < 2` means two conditions, and `&` takes the 3 and the k.
    const bool both = e.op == Operator::intersect;
    wrong_connective(e, both ? "&" : "|", both ? "and" : "or", left.kind == Kind::boolean ? "booleans" : "numbers");
    return {};
  }
  return arithmetic(e, left, right, context);
}

Typed ExpressionChecker::sets(const Expr& e, const Typed& left, const Typed& right) {
  if (arithmetic_on_sets(e, left, right)) return {};
  if (!is_set_operator(e.op)) {
    const bool first = left.kind == Kind::set;
    wrong_type(*e.args[first ? 0 : 1].value, first ? left : right, "a number");
    return {};
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const Typed& typed = i == 0 ? left : right;
    if (typed.kind == Kind::set) continue;
    const Expr& side = *e.args[i].value;
    auto& d = findings_.add(Code::not_a_set, side.outer,
                            fmt::format("'{}' is {}, but '{}' joins it to a set", findings_.text(side.outer),
                                        describe(typed), info(e.op).spelling));
    if (typed.kind == Kind::boolean) {
      d.label = "a condition makes a set inside 'where(…)' only";
      d.fix = Fix{side.outer, fmt::format("where({})", findings_.whole(side.range)), "put it into 'where(…)'"};
    }
    return {};
  }
  return {.kind = Kind::set};
}

Typed ExpressionChecker::logical(const Expr& e, const Typed& left, const Typed& right) {
  const bool both = e.op == Operator::logical_and;
  if (left.kind == Kind::set && right.kind == Kind::set) {
    wrong_connective(e, both ? "and" : "or", both ? "&" : "|", "sets");
    return {};
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const Typed& typed = i == 0 ? left : right;
    if (typed.kind == Kind::boolean) continue;
    wrong_type(*e.args[i].value, typed, "a boolean");
    return {};
  }
  return folded(e, Kind::boolean, left.value && right.value ? fold(e.op, *left.value, *right.value) : Folded{});
}

void ExpressionChecker::mixed(const Expr& e, std::string message, const Context& context, const Expr* real) {
  effects_.mixed = true;
  if (!context.strict) return;
  auto& d = findings_.add(Code::mixed_numbers, e.outer, std::move(message));
  d.notes.push_back(fmt::format("in {} integers and reals do not mix; in 'score' and 'scale' they do", context.where));
  if (!real || real->kind != ExprKind::real || real->real != std::floor(real->real) || std::fabs(real->real) > 1e15) {
    return;
  }
  d.fix = Fix{real->range, fmt::format("{:.0f}", real->real), "write an integer"};
}

Kind ExpressionChecker::join(const Expr& e, const Expr& a, const Typed& left, const Expr& b, const Typed& right,
                             const Context& context) {
  if (left.kind == right.kind) return left.kind;
  const bool left_real = left.kind == Kind::real;
  mixed(e,
        fmt::format("'{}' is {} and '{}' is {}", findings_.text(a.outer), describe(left), findings_.text(b.outer),
                    describe(right)),
        context, left_real ? &a : &b);
  return context.strict ? Kind::unknown : Kind::real;
}

Typed ExpressionChecker::arithmetic(const Expr& e, const Typed& left, const Typed& right, const Context& context) {
  if (boolean_as_number(e, left, right)) return {};
  for (std::size_t i = 0; i < 2; ++i) {
    const Typed& typed = i == 0 ? left : right;
    if (is_number(typed.kind)) continue;
    wrong_type(*e.args[i].value, typed, "a number");
    return {};
  }
  const Kind kind = join(e, *e.args[0].value, left, *e.args[1].value, right, context);
  if (kind == Kind::unknown) return {};
  const bool divides = e.op == Operator::divide || e.op == Operator::modulo;
  if (divides && right.value && right.value->number() == 0.0)
    return folded(e, kind, {.trouble = Trouble::zero_division});
  if (!left.value || !right.value) return {.kind = kind};
  return folded(e, kind, fold(e.op, *left.value, *right.value));
}

Typed ExpressionChecker::compare(const Expr& e, const Context& context) {
  std::vector<Typed> sides;
  for (const Arg& arg : e.args) sides.push_back(check(*arg.value, context));
  bool known = true;
  bool truth = true;
  for (std::size_t i = 0; i + 1 < sides.size(); ++i) {
    const Typed& left = sides[i];
    const Typed& right = sides[i + 1];
    if (left.kind != Kind::unknown && right.kind != Kind::unknown) compare_pair(e, i, left, right, context);
    const Folded pair = left.value && right.value ? fold(e.ops[i], *left.value, *right.value) : Folded{};
    known &= pair.value && pair.value->boolean();
    truth &= known && *pair.value->boolean();
  }
  Typed result{.kind = Kind::boolean};
  if (known) result.value = Value{truth};
  return result;
}

void ExpressionChecker::compare_pair(const Expr& e, std::size_t i, const Typed& left, const Typed& right,
                                     const Context& context) {
  const Expr& a = *e.args[i].value;
  const Expr& b = *e.args[i + 1].value;
  const Operator op = e.ops[i];
  if (op == Operator::in) {
    if (!is_list_or_range(right.kind)) return wrong_type(b, right, "a list or a range");
    const Kind item = right.kind == Kind::range ? Kind::integer : right.item;
    if (item == Kind::unknown) return;
    if (is_number(item) && is_number(left.kind)) {
      (void)join(e, a, left, b, {.kind = item}, context);
    } else if (item != left.kind) {
      wrong_type(a, left, fmt::format("an item of {}", describe(right)));
    }
    return;
  }
  if (left.kind == Kind::boolean && right.kind == Kind::boolean &&
      (op == Operator::equal || op == Operator::not_equal)) {
    return;
  }
  if (is_number(left.kind) && is_number(right.kind)) {
    (void)join(e, a, left, b, right, context);
    return;
  }
  const bool blame_right =
      is_number(left.kind) || (left.kind == Kind::boolean && right.kind != Kind::boolean && !is_number(right.kind));
  wrong_type(blame_right ? b : a, blame_right ? right : left, "a number");
}

}  // namespace weft::dsl
