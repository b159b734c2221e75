// Types of operators: sets, booleans and numbers share spellings, and here they are told apart.

#include "compiler/ir/elaborate.h"
#include "dsl/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::ir {
namespace {

bool is_set_operator(Operator op) {
  return op == Operator::unite || op == Operator::intersect || op == Operator::subtract;
}

bool is_zero(const Expr& e) {
  return e.op == Op::constant && (e.type == Type::integer ? e.integer == 0 : e.type == Type::real && e.real == 0);
}

bool is_whole_constant(const ExprPtr& e) { return e->op == Op::constant && e->type == Type::integer; }

bool is_list_or_range(Kind kind) { return kind == Kind::list || kind == Kind::range; }

}  // namespace

Value Elaborator::troubled(Code code, const dsl::Expr& e, Kind kind, std::string message, std::string label) {
  if (run_.unreachable > 0) return {.kind = kind, .expr = zero_of(kind, e.range)};
  findings_.add(code, e.outer, std::move(message), std::move(label));
  return {};
}

Value Elaborator::made(const dsl::Expr& e, Kind kind, Op op, Args args) {
  if (divides(op) && args[1] && is_zero(*args[1]))
    return troubled(Code::zero_division, e, kind, fmt::format("'{}' divides by zero", findings_.text(e.outer)));
  if (std::any_of(args.begin(), args.end(), [](const ExprPtr& arg) { return !arg; })) return {.kind = kind};
  const bool whole = op != Op::select && op != Op::alibi && std::all_of(args.begin(), args.end(), is_whole_constant);
  ExprPtr made = apply(op, std::move(args), e.range);
  if (whole && kind == Kind::integer && made->op != Op::constant)
    return troubled(Code::overflow, e, kind, fmt::format("'{}' does not fit into 64 bits", findings_.text(e.outer)));
  return limited({.kind = kind, .expr = std::move(made)}, e.range);
}

Value Elaborator::made(const dsl::Expr& e, Kind kind, Operator op, Args args) {
  const dsl::Operation found = dsl::operation_of(op, args.size());
  if (found.swapped) std::swap(args[0], args[1]);
  return made(e, kind, *found.op, std::move(args));
}

Value Elaborator::chain(const dsl::Expr& e, Kind kind, Op op, const Args& items) {
  Value out{.kind = kind, .expr = items.front()};
  for (std::size_t i = 1; i < items.size() && out.kind != Kind::unknown; ++i)
    out = made(e, kind, op, {out.expr, items[i]});
  return out;
}

Value Elaborator::evaluated(const dsl::Expr& e, const Context& context, bool skipped) {
  run_.unreachable += skipped ? 1 : 0;
  Value out = value(e, context);
  run_.unreachable -= skipped ? 1 : 0;
  return out;
}

Value Elaborator::unary(const dsl::Expr& e, const Context& context) {
  const dsl::Expr& operand = *e.args[0].value;
  const Value of = value(operand, context);
  if (of.kind == Kind::unknown) return {};
  if (e.op == Operator::complement) {
    if (of.kind == Kind::set) return sets(e, {of.set});
    if (of.kind == Kind::boolean) {
      wrong_connective(e, "!", "not ", "booleans");
    } else {
      wrong_type(operand, of, "a set");
    }
    return {};
  }
  if (e.op == Operator::logical_not) {
    if (of.kind == Kind::boolean) {
      return made(e, Kind::boolean, e.op, {of.expr});
    }
    if (of.kind == Kind::set) {
      wrong_connective(e, "not", "!", "sets");
    } else {
      wrong_type(operand, of, "a boolean");
    }
    return {};
  }
  if (of.kind == Kind::set) {
    wrong_connective(e, "-", "!", "sets");
    return {};
  }
  if (!is_number(of.kind)) {
    wrong_type(operand, of, "a number");
    return {};
  }
  return made(e, of.kind, e.op, {of.expr});
}

void Elaborator::wrong_connective(const dsl::Expr& e, std::string_view written, std::string_view meant,
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

Value Elaborator::binary(const dsl::Expr& e, const Context& context) {
  const bool connects = e.op == Operator::logical_and || e.op == Operator::logical_or;
  const Value left = value(*e.args[0].value, context);
  // `rate > 0 and q % rate == 0` divides by no zero.
  const bool decided = connects && is_known(left, e.op == Operator::logical_or);
  const Value right = evaluated(*e.args[1].value, context, decided);
  if (left.kind == Kind::unknown || right.kind == Kind::unknown) return {};
  if (connects) return logical(e, left, right);
  if (left.kind == Kind::set || right.kind == Kind::set) return of_sets(e, left, right);
  if (e.op == Operator::unite || e.op == Operator::intersect) {
    // Also for numbers: `q > 3 & k < 2` means two conditions, and `&` takes the 3 and the k.
    const bool both = e.op == Operator::intersect;
    wrong_connective(e, both ? "&" : "|", both ? "and" : "or", left.kind == Kind::boolean ? "booleans" : "numbers");
    return {};
  }
  return arithmetic(e, left, right, context);
}

Value Elaborator::sets(const dsl::Expr& e, std::vector<SetPtr> parts) {
  if (std::any_of(parts.begin(), parts.end(), [](const SetPtr& part) { return !part; })) return {.kind = Kind::set};
  const SetKind kind = e.op == Operator::complement  ? SetKind::complement
                       : e.op == Operator::intersect ? SetKind::intersection
                       : e.op == Operator::unite     ? SetKind::unite
                                                     : SetKind::difference;
  return {.kind = Kind::set, .set = limited(make_set(kind, std::move(parts), e.range), e.range)};
}

Value Elaborator::of_sets(const dsl::Expr& e, const Value& left, const Value& right) {
  if (arithmetic_on_sets(e, left, right)) return {};
  if (!is_set_operator(e.op)) {
    const bool first = left.kind == Kind::set;
    wrong_type(*e.args[first ? 0 : 1].value, first ? left : right, "a number");
    return {};
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const Value& of = i == 0 ? left : right;
    if (of.kind == Kind::set) continue;
    const dsl::Expr& side = *e.args[i].value;
    auto& d = findings_.add(Code::not_a_set, side.outer,
                            fmt::format("'{}' is {}, but '{}' joins it to a set", findings_.text(side.outer),
                                        describe(of), info(e.op).spelling));
    if (of.kind == Kind::boolean) {
      d.label = "a condition makes a set inside 'where(…)' only";
      d.fix = Fix{side.outer, fmt::format("where({})", findings_.whole(side.range)), "put it into 'where(…)'"};
    }
    return {};
  }
  return sets(e, {left.set, right.set});
}

Value Elaborator::logical(const dsl::Expr& e, const Value& left, const Value& right) {
  const bool both = e.op == Operator::logical_and;
  if (left.kind == Kind::set && right.kind == Kind::set) {
    wrong_connective(e, both ? "and" : "or", both ? "&" : "|", "sets");
    return {};
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const Value& of = i == 0 ? left : right;
    if (of.kind == Kind::boolean) continue;
    wrong_type(*e.args[i].value, of, "a boolean");
    return {};
  }
  return is_known(left, !both) ? left : made(e, Kind::boolean, e.op, {left.expr, right.expr});
}

void Elaborator::mixed(const dsl::Expr& e, std::string message, const Context& context, const dsl::Expr* real) {
  effects_.mixed = true;
  if (!context.strict) return;
  auto& d = findings_.add(Code::mixed_numbers, e.outer, std::move(message));
  d.notes.push_back(fmt::format("in {} integers and reals do not mix; in 'score' and 'scale' they do", context.where));
  if (!real || real->kind != ExprKind::real || real->real != std::floor(real->real) || std::fabs(real->real) > 1e15) {
    return;
  }
  d.fix = Fix{real->range, fmt::format("{:.0f}", real->real), "write an integer"};
}

Kind Elaborator::join(const dsl::Expr& e, const dsl::Expr& a, Kind left, const dsl::Expr& b, Kind right,
                      const Context& context) {
  if (left == right) return left;
  mixed(e,
        fmt::format("'{}' is {} and '{}' is {}", findings_.text(a.outer), describe({.kind = left}),
                    findings_.text(b.outer), describe({.kind = right})),
        context, left == Kind::real ? &a : &b);
  return context.strict ? Kind::unknown : Kind::real;
}

Value Elaborator::arithmetic(const dsl::Expr& e, const Value& left, const Value& right, const Context& context) {
  if (boolean_as_number(e, left, right)) return {};
  for (std::size_t i = 0; i < 2; ++i) {
    const Value& side = i == 0 ? left : right;
    if (is_number(side.kind)) continue;
    wrong_type(*e.args[i].value, side, "a number");
    return {};
  }
  const Kind kind = join(e, *e.args[0].value, left.kind, *e.args[1].value, right.kind, context);
  return kind == Kind::unknown ? Value{} : made(e, kind, e.op, {left.expr, right.expr});
}

/// `a < b <= c` is `a < b and b <= c`.
Value Elaborator::compare(const dsl::Expr& e, const Context& context) {
  std::vector<Value> sides;
  for (const dsl::Arg& arg : e.args) sides.push_back(value(*arg.value, context));
  Args parts;
  bool fine = true;
  for (std::size_t i = 0; i + 1 < sides.size(); ++i) {
    const bool known = sides[i].kind != Kind::unknown && sides[i + 1].kind != Kind::unknown;
    const Value part = known ? compare_pair(e, i, sides[i], sides[i + 1], context) : Value{};
    fine = fine && part.kind != Kind::unknown;
    parts.push_back(part.expr);
  }
  // A comparison is a boolean whatever is wrong with its sides.
  return fine ? chain(e, Kind::boolean, Op::logical_and, parts) : Value{.kind = Kind::boolean};
}

Value Elaborator::membership(const dsl::Expr& e, std::size_t i, const Value& left, const Value& right,
                             const Context& context) {
  const dsl::Expr& a = *e.args[i].value;
  const dsl::Expr& b = *e.args[i + 1].value;
  if (!is_list_or_range(right.kind)) {
    wrong_type(b, right, "a list or a range");
    return {};
  }
  const Kind item = right.kind == Kind::range ? Kind::integer : right.item;
  if (is_number(item) && is_number(left.kind)) {
    if (join(e, a, left.kind, b, item, context) == Kind::unknown) return {};
  } else if (item != Kind::unknown && item != left.kind) {
    wrong_type(a, left, fmt::format("an item of {}", describe(right)));
    return {};
  }
  if (!right.items) return {.kind = Kind::boolean};
  const auto items = items_of(right, b);
  if (!items) return {};
  Args equal{constant_bool(false, e.range)};
  for (const Value& one : *items) equal.push_back(made(e, Kind::boolean, Op::equal, {left.expr, one.expr}).expr);
  return left.expr ? chain(e, Kind::boolean, Op::logical_or, equal) : Value{.kind = Kind::boolean};
}

Value Elaborator::compare_pair(const dsl::Expr& e, std::size_t i, const Value& left, const Value& right,
                               const Context& context) {
  const dsl::Expr& a = *e.args[i].value;
  const dsl::Expr& b = *e.args[i + 1].value;
  const Operator op = e.ops[i];
  if (op == Operator::in) return membership(e, i, left, right, context);
  const bool equality = op == Operator::equal || op == Operator::not_equal;
  if (is_number(left.kind) && is_number(right.kind)) {
    if (join(e, a, left.kind, b, right.kind, context) == Kind::unknown) return {};
  } else if (left.kind != Kind::boolean || right.kind != Kind::boolean || !equality) {
    const bool blame_right =
        is_number(left.kind) || (left.kind == Kind::boolean && right.kind != Kind::boolean && !is_number(right.kind));
    wrong_type(blame_right ? b : a, blame_right ? right : left, "a number");
    return {};
  }
  return made(e, Kind::boolean, op, {left.expr, right.expr});
}

}  // namespace weft::ir
