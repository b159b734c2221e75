#include "compiler/ir/lower_context.h"
#include "dsl/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace weft::ir {
namespace {

constexpr std::int64_t kMostNodes = std::int64_t{1} << 16;
constexpr int kDeepest = 4096;
constexpr std::int64_t kMostSteps = std::int64_t{1} << 19;

using Args = std::vector<ExprPtr>;

bool is_zero(const Expr& e) {
  return e.op == Op::constant && (e.type == Type::integer ? e.integer == 0 : e.type == Type::real && e.real == 0);
}

bool is_integer_constant(const ExprPtr& e) { return e->op == Op::constant && e->type == Type::integer; }

void report_too_large(Lowering& l, SourceRange range) {
  l.report(finding(Code::too_large, range, "this is too large once names and lists are written out"));
}

/// `apply` with the errors that values show: the node comes out, or a report and null.
ExprPtr checked(Lowering& l, Op op, Args args, SourceRange range) {
  if (std::any_of(args.begin(), args.end(), [](const ExprPtr& e) { return !e; })) return nullptr;
  if ((op == Op::divide || op == Op::modulo) && is_zero(*args[1])) {
    l.report(finding(Code::zero_division, range, "this divides by zero"));
    return nullptr;
  }
  const bool constants =
      op != Op::select && op != Op::alibi && std::all_of(args.begin(), args.end(), is_integer_constant);
  ExprPtr e = apply(op, std::move(args), range);
  if (constants && e->type == Type::integer && e->op != Op::constant) {
    l.report(finding(Code::overflow, range, "this integer does not fit in 64 bits"));
    return nullptr;
  }
  return limited(l, std::move(e), range);
}

Op binary_op(dsl::Operator op) {
  using dsl::Operator;
  if (op == Operator::add) return Op::add;
  if (op == Operator::subtract) return Op::subtract;
  if (op == Operator::multiply) return Op::multiply;
  if (op == Operator::divide) return Op::divide;
  if (op == Operator::modulo) return Op::modulo;
  return op == Operator::logical_and ? Op::logical_and : Op::logical_or;
}

ExprPtr lower_comparison(Lowering& l, dsl::Operator op, const ExprPtr& a, const ExprPtr& b, SourceRange range) {
  using dsl::Operator;
  if (op == Operator::less) return checked(l, Op::less, {a, b}, range);
  if (op == Operator::less_equal) return checked(l, Op::less_equal, {a, b}, range);
  if (op == Operator::greater) return checked(l, Op::less, {b, a}, range);
  if (op == Operator::greater_equal) return checked(l, Op::less_equal, {b, a}, range);
  return checked(l, op == Operator::equal ? Op::equal : Op::not_equal, {a, b}, range);
}

/// Folds `items` from the left; `empty` where there is none.
ExprPtr chain(Lowering& l, Op op, const Args& items, ExprPtr empty, SourceRange range) {
  if (items.empty()) return empty;
  ExprPtr out = items.front();
  for (std::size_t i = 1; i < items.size() && out; ++i) out = checked(l, op, {out, items[i]}, range);
  return out;
}

ExprPtr lower_membership(Lowering& l, const Names& names, const ExprPtr& x, const dsl::Expr& list, SourceRange range) {
  const auto items = lower_list(l, names, list);
  if (!items || !x) return nullptr;
  Args equal;
  for (const auto& item : *items) equal.push_back(checked(l, Op::equal, {x, item}, range));
  return chain(l, Op::logical_or, equal, constant_bool(false, range), range);
}

/// `a < b <= c` is `a < b and b <= c`.
ExprPtr lower_chain(Lowering& l, const Names& names, const dsl::Expr& e) {
  Args parts;
  ExprPtr left = lower_expr(l, names, *e.args[0].value);
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    const dsl::Expr& next = *e.args[i + 1].value;
    if (e.ops[i] == dsl::Operator::in) {
      parts.push_back(lower_membership(l, names, left, next, e.range));
      continue;
    }
    ExprPtr right = lower_expr(l, names, next);
    parts.push_back(lower_comparison(l, e.ops[i], left, right, e.range));
    left = std::move(right);
  }
  return chain(l, Op::logical_and, parts, nullptr, e.range);
}

/// `any`, `all` and `sum` of these items.
ExprPtr quantify(Lowering& l, const std::string& word, const Args& items, SourceRange range) {
  if (word == "any") return chain(l, Op::logical_or, items, constant_bool(false, range), range);
  if (word == "all") return chain(l, Op::logical_and, items, constant_bool(true, range), range);
  return chain(l, Op::add, items, constant(0, range), range);
}

ExprPtr lower_comprehension(Lowering& l, const Names& names, const dsl::Expr& e) {
  const auto items = lower_list(l, names, *e.args[0].value);
  if (!items) return nullptr;
  Args bodies;
  for (const auto& item : *items) {
    Names inner{.outer = &names};
    inner.values[e.variable] = value_of(item);
    bodies.push_back(lower_expr(l, inner, *e.args[1].value));
    if (!bodies.back()) return nullptr;
  }
  return quantify(l, e.word, bodies, e.range);
}

/// A list under an index that varies is a choice; beyond its ends the nearest item.
ExprPtr choose(Lowering& l, const Args& items, const ExprPtr& at, SourceRange range) {
  ExprPtr out = items.back();
  for (std::size_t i = items.size() - 1; i-- > 0 && out;) {
    const ExprPtr here = checked(l, Op::less_equal, {at, constant(static_cast<std::int64_t>(i))}, range);
    out = checked(l, Op::select, {here, items[i], out}, range);
  }
  return out;
}

ExprPtr lower_item(Lowering& l, const Names& names, const dsl::Expr& e) {
  const auto items = lower_list(l, names, *e.args[0].value);
  const ExprPtr at = lower_expr(l, names, *e.args[1].value);
  if (!items || !at) return nullptr;
  const auto count = static_cast<std::int64_t>(items->size());
  const bool known = is_integer_constant(at);
  if (items->empty() || (known && (at->integer < 0 || at->integer >= count))) {
    const std::string which = known ? fmt::format("item {}", at->integer) : "an item";
    l.report(finding(Code::index_range, e.args[1].value->range, fmt::format("{} of a list of {}", which, count)));
    return nullptr;
  }
  return known ? (*items)[static_cast<std::size_t>(at->integer)] : choose(l, *items, at, e.range);
}

/// Bounds of an index, as far as they follow from its form; infinite otherwise.
struct Interval {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
};

Interval bounds_of(const Expr& e, const Pattern& pattern) {
  if (e.op == Op::constant) return {static_cast<double>(e.integer), static_cast<double>(e.integer)};
  if (e.op == Op::variable && e.variable == Variable::h) {
    return {0, pattern.heads ? static_cast<double>(*pattern.heads - 1) : Interval{}.hi};
  }
  const auto of = [&](std::size_t i) { return bounds_of(*e.args[i], pattern); };
  if (e.op == Op::add) return {of(0).lo + of(1).lo, of(0).hi + of(1).hi};
  if (e.op == Op::subtract) return {of(0).lo - of(1).hi, of(0).hi - of(1).lo};
  if (e.op == Op::negate) return {-of(0).hi, -of(0).lo};
  if (e.op == Op::minimum) return {std::min(of(0).lo, of(1).lo), std::min(of(0).hi, of(1).hi)};
  if (e.op == Op::maximum) return {std::max(of(0).lo, of(1).lo), std::max(of(0).hi, of(1).hi)};
  if (e.op == Op::absolute) return {std::max({0.0, of(0).lo, -of(0).hi}), std::max(-of(0).lo, of(0).hi)};
  if (e.op == Op::modulo && is_integer_constant(e.args[1])) {
    return {0, std::abs(static_cast<double>(e.args[1]->integer)) - 1};
  }
  return {};
}

/// Only an index that never lies inside is surely wrong: others may be clamped on purpose.
void check_index(Lowering& l, const Input& input, std::size_t axis, const Expr& index, SourceRange range) {
  const Interval at = bounds_of(index, l.pattern);
  const bool extent_known = input.axes[axis].kind == Axis::Kind::extent;
  const auto extent = static_cast<double>(input.axes[axis].extent);
  if (at.hi >= 0 && !(extent_known && at.lo >= extent)) return;
  const std::string why = at.hi < 0 ? "is always negative" : fmt::format("is never under {}", input.axes[axis].extent);
  l.report(finding(Code::index_range, range, fmt::format("this index of '{}' {}", input.name, why)));
}

ExprPtr lower_index(Lowering& l, const Names& names, const dsl::Expr& e) {
  const dsl::Expr& base = *e.args[0].value;
  const auto number =
      base.kind == dsl::ExprKind::name && !names.find(base.word) ? l.find_input(base.word) : std::nullopt;
  if (!number) return lower_item(l, names, e);
  const Input input = l.pattern.inputs[static_cast<std::size_t>(*number)];
  Args indices;
  for (std::size_t i = 1; i < e.args.size(); ++i) {
    const ExprPtr index = lower_expr(l, names, *e.args[i].value);
    if (!index) return nullptr;
    if (i <= input.axes.size()) check_index(l, input, i - 1, *index, e.args[i].value->range);
    indices.push_back(index);
  }
  const Type type = input.type == InputType::f32 ? Type::real : Type::integer;
  return limited(l, input_at(*number, type, std::move(indices), e.range), e.range);
}

ExprPtr lower_call(Lowering& l, const Names& names, const dsl::Expr& e) {
  if (e.word == "len") {
    const auto items = lower_list(l, names, *e.args[0].value);
    return items ? constant(static_cast<std::int64_t>(items->size()), e.range) : nullptr;
  }
  if (e.word == "any" || e.word == "all" || e.word == "sum") {
    const auto items = lower_list(l, names, *e.args[0].value);
    return items ? quantify(l, e.word, *items, e.range) : nullptr;
  }
  Args args;
  for (const auto& arg : e.args) args.push_back(lower_expr(l, names, *arg.value));
  if (e.word == "softcap") {
    const ExprPtr ratio = checked(l, Op::divide, args, e.range);
    return checked(l, Op::multiply, {args[1], checked(l, Op::tanh, {ratio}, e.range)}, e.range);
  }
  constexpr std::array kCalls = {Op::minimum, Op::maximum, Op::absolute, Op::exp,    Op::log,
                                 Op::sqrt,    Op::tanh,    Op::sigmoid,  Op::select, Op::alibi};
  for (const Op op : kCalls) {
    if (e.word == to_string(op)) return checked(l, op, std::move(args), e.range);
  }
  return l.lose();
}

ExprPtr lower_name(Lowering& l, const Names& names, const dsl::Expr& e) {
  if (const Value* value = names.find(e.word)) return value->expr;
  constexpr std::array kVariables = {Variable::b,   Variable::h,   Variable::q,     Variable::k,
                                     Variable::n_q, Variable::n_k, Variable::heads, Variable::s};
  for (const Variable v : kVariables) {
    if (e.word == to_string(v)) return variable(v, e.range);
  }
  return l.lose();
}

ExprPtr lower_unary(Lowering& l, const Names& names, const dsl::Expr& e) {
  const Op op = e.op == dsl::Operator::logical_not ? Op::logical_not : Op::negate;
  return checked(l, op, {lower_expr(l, names, *e.args[0].value)}, e.range);
}

ExprPtr lower_scalar(Lowering& l, const Names& names, const dsl::Expr& e) {
  switch (e.kind) {
    case dsl::ExprKind::integer:
      return constant(e.integer, e.range);
    case dsl::ExprKind::real:
      return constant_real(e.real, e.range);
    case dsl::ExprKind::boolean:
      return constant_bool(e.boolean, e.range);
    case dsl::ExprKind::name:
      return lower_name(l, names, e);
    case dsl::ExprKind::call:
      return lower_call(l, names, e);
    case dsl::ExprKind::comprehension:
      return lower_comprehension(l, names, e);
    case dsl::ExprKind::index:
      return lower_index(l, names, e);
    case dsl::ExprKind::unary:
      return lower_unary(l, names, e);
    case dsl::ExprKind::compare:
      return lower_chain(l, names, e);
    case dsl::ExprKind::binary: {
      const ExprPtr left = lower_expr(l, names, *e.args[0].value);
      const ExprPtr right = lower_expr(l, names, *e.args[1].value);
      return checked(l, binary_op(e.op), {left, right}, e.range);
    }
    case dsl::ExprKind::list:
    case dsl::ExprKind::range:
      break;
  }
  return nullptr;
}

std::optional<Args> range_items(Lowering& l, const Names& names, const dsl::Expr& e) {
  const auto lo = lower_integer(l, names, *e.args[0].value);
  const auto hi = lower_integer(l, names, *e.args[1].value);
  if (!lo || !hi) return std::nullopt;
  if (*hi > *lo && static_cast<std::uint64_t>(*hi) - static_cast<std::uint64_t>(*lo) > kMostListItems) {
    l.report(finding(Code::list_too_long, e.range, fmt::format("a list has {} items at most", kMostListItems)));
    return std::nullopt;
  }
  Args items;
  for (std::int64_t i = *lo; i < *hi; ++i) items.push_back(constant(i, e.range));
  return items;
}

}  // namespace

ExprPtr limited(Lowering& l, ExprPtr e, SourceRange range) {
  if (!e || (e->nodes <= kMostNodes && e->depth <= kDeepest)) return e;
  report_too_large(l, range);
  return nullptr;
}

SetPtr limited(Lowering& l, SetPtr set, SourceRange range) {
  if (!set || (set->nodes <= kMostNodes && set->depth <= kDeepest)) return set;
  report_too_large(l, range);
  return nullptr;
}

bool is_set(const Names& names, const dsl::Expr& e) {
  using dsl::ExprKind;
  using dsl::Operator;
  if (e.kind == ExprKind::name) {
    const Value* value = names.find(e.word);
    return value ? value->kind == Value::Kind::set : dsl::find_set(e.word) != nullptr;
  }
  if (e.kind == ExprKind::call) return dsl::find_set(e.word) && e.word != "all";
  if (e.kind == ExprKind::unary) return e.op == Operator::complement;
  if (e.kind != ExprKind::binary) return false;
  if (e.op == Operator::subtract) return is_set(names, *e.args[0].value);
  return e.op == Operator::intersect || e.op == Operator::unite;
}

Value lower_value(Lowering& l, const Names& names, const dsl::Expr& e) {
  if (is_set(names, e)) return value_of(lower_set(l, names, e));
  const Value* named = e.kind == dsl::ExprKind::name ? names.find(e.word) : nullptr;
  const bool list = e.kind == dsl::ExprKind::list || e.kind == dsl::ExprKind::range;
  if (!list && !(named && named->kind == Value::Kind::list)) return value_of(lower_expr(l, names, e));
  auto items = lower_list(l, names, e);
  return items ? value_of(std::move(*items)) : Value{};
}

ExprPtr lower_expr(Lowering& l, const Names& names, const dsl::Expr& e) {
  const bool first = l.steps <= kMostSteps;
  l.steps += 1 + names.depth / 8;  // a name is looked for in every scope around it
  if (l.steps > kMostSteps) {
    if (first) report_too_large(l, e.range);
    return nullptr;
  }
  return lower_scalar(l, names, e);
}

std::optional<std::int64_t> lower_integer(Lowering& l, const Names& names, const dsl::Expr& e) {
  const ExprPtr value = lower_expr(l, names, e);
  if (!value) return std::nullopt;
  if (is_integer_constant(value)) return value->integer;
  l.report(finding(Code::parameter_type, e.range, "this must be an integer that is known before the kernel runs"));
  return std::nullopt;
}

std::optional<double> lower_real(Lowering& l, const Names& names, const dsl::Expr& e) {
  ExprPtr value = lower_expr(l, names, e);
  if (!value) return std::nullopt;
  if (value->type == Type::integer) value = apply(Op::to_real, {value}, e.range);
  if (value->op == Op::constant && value->type == Type::real) return value->real;
  l.report(finding(Code::parameter_type, e.range, "this must be a number that is known before the kernel runs"));
  return std::nullopt;
}

std::optional<Args> lower_list(Lowering& l, const Names& names, const dsl::Expr& e) {
  if (e.kind == dsl::ExprKind::range) return range_items(l, names, e);
  if (e.kind == dsl::ExprKind::name) {
    const Value* value = names.find(e.word);
    if (value && value->kind == Value::Kind::list) return value->list;
  }
  if (e.kind != dsl::ExprKind::list) {
    l.lose();
    return std::nullopt;
  }
  Args items;
  for (const auto& arg : e.args) {
    items.push_back(lower_expr(l, names, *arg.value));
    if (!items.back()) return std::nullopt;
  }
  return items;
}

std::optional<std::vector<std::int64_t>> lower_integers(Lowering& l, const Names& names, const dsl::Expr& e) {
  const auto items = lower_list(l, names, e);
  if (!items) return std::nullopt;
  std::vector<std::int64_t> out;
  for (const auto& item : *items) {
    if (!is_integer_constant(item)) {
      l.report(finding(Code::parameter_type, e.range, "these must be integers that are known before the kernel runs"));
      return std::nullopt;
    }
    out.push_back(item->integer);
  }
  return out;
}

}  // namespace weft::ir
