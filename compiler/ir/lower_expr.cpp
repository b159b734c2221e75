#include "compiler/ir/lower_context.h"
#include "compiler/ir/never_holds.h"
#include "dsl/operators.h"
#include "dsl/value.h"
#include "dsl/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace weft::ir {
namespace {

constexpr std::int64_t kMostNodes = std::int64_t{1} << 16;
constexpr int kDeepest = 4096;

using Args = std::vector<ExprPtr>;

bool is_zero(const Expr& e) {
  return e.op == Op::constant && (e.type == Type::integer ? e.integer == 0 : e.type == Type::real && e.real == 0);
}

bool is_integer_constant(const ExprPtr& e) { return e->op == Op::constant && e->type == Type::integer; }

ExprPtr zero_like(const Expr& a, const Expr& b, SourceRange range) {
  const bool real = a.type == Type::real || b.type == Type::real;
  return real ? constant_real(0, range) : constant(0, range);
}

/// `apply` with the errors that values show: the node comes out, or a report and null.
ExprPtr checked(Lowering& l, Op op, Args args, SourceRange range) {
  if (std::any_of(args.begin(), args.end(), [](const ExprPtr& e) { return !e; })) return nullptr;
  if (divides(op) && is_zero(*args[1])) {
    l.report(revealed(Code::zero_division, range, "this divides by zero"));
    return l.unreachable > 0 ? zero_like(*args[0], *args[1], range) : nullptr;
  }
  const bool constants =
      op != Op::select && op != Op::alibi && std::all_of(args.begin(), args.end(), is_integer_constant);
  ExprPtr e = apply(op, std::move(args), range);
  if (constants && e->type == Type::integer && e->op != Op::constant) {
    l.report(revealed(Code::overflow, range, "this integer does not fit in 64 bits"));
    return l.unreachable > 0 ? constant(0, range) : nullptr;
  }
  return limited(l, std::move(e), range);
}

/// The operation that an operator of the language is; `>` and `>=` are those the other way round.
ExprPtr lower_operator(Lowering& l, dsl::Operator op, Args args, SourceRange range) {
  const dsl::Operation found = dsl::operation_of(op, args.size());
  if (!found.op) return l.lose();
  if (found.swapped) std::swap(args[0], args[1]);
  return checked(l, *found.op, std::move(args), range);
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

/// The value of text that is written but, with these parameters, never evaluated: nothing is said about it, and
/// an operation that has no value stands for a 0 of its type. Null where even its type is unknown.
ExprPtr lower_unreachable(Lowering& l, const Names& names, const dsl::Expr& e) {
  const bool lost = l.lost;
  ++l.unreachable;
  ExprPtr out = lower_expr(l, names, e);
  --l.unreachable;
  l.lost = lost;
  return out;
}

bool is_boolean_constant(const ExprPtr& e, bool value) {
  return e && e->op == Op::constant && e->type == Type::boolean && e->boolean == value;
}

/// `rate > 0 and q % rate == 0` divides by no zero.
ExprPtr lower_logical(Lowering& l, const Names& names, const dsl::Expr& e) {
  const Op op = e.op == dsl::Operator::logical_and ? Op::logical_and : Op::logical_or;
  const ExprPtr left = lower_expr(l, names, *e.args[0].value);
  if (is_boolean_constant(left, op == Op::logical_or)) {
    (void)lower_unreachable(l, names, *e.args[1].value);
    return left;
  }
  return checked(l, op, {left, lower_expr(l, names, *e.args[1].value)}, e.range);
}

/// `select(count > 1, rates[1], 1)` has no second rate where there is one.
ExprPtr lower_select(Lowering& l, const Names& names, const dsl::Expr& e) {
  const ExprPtr condition = lower_expr(l, names, *e.args[0].value);
  const auto side = [&](std::size_t i) {
    const bool taken = !is_boolean_constant(condition, i == 2);
    return taken ? lower_expr(l, names, *e.args[i].value) : lower_unreachable(l, names, *e.args[i].value);
  };
  ExprPtr yes = side(1), no = side(2);
  if (!yes && is_boolean_constant(condition, false)) return no;
  if (!no && is_boolean_constant(condition, true)) return yes;
  return checked(l, Op::select, {condition, std::move(yes), std::move(no)}, e.range);
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
    parts.push_back(lower_operator(l, e.ops[i], {left, right}, e.range));
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
  if (items->empty()) {
    Names inner{.outer = &names};
    inner.values[e.variable] = value_of(constant(0, e.range));
    (void)lower_unreachable(l, inner, *e.args[1].value);
  }
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
  return out && out->op == Op::select ? item_of_list(out, std::ssize(items)) : out;
}

ExprPtr lower_item(Lowering& l, const Names& names, const dsl::Expr& e) {
  const auto items = lower_list(l, names, *e.args[0].value);
  const ExprPtr at = lower_expr(l, names, *e.args[1].value);
  if (!items || !at) return nullptr;
  const auto count = static_cast<std::int64_t>(items->size());
  const bool known = is_integer_constant(at);
  if (items->empty() || (known && (at->integer < 0 || at->integer >= count))) {
    const std::string which = known ? fmt::format("item {}", at->integer) : "an item";
    l.report(revealed(Code::index_range, e.args[1].value->range, fmt::format("{} of a list of {}", which, count)));
    return l.unreachable > 0 && !items->empty() ? items->front() : nullptr;
  }
  return known ? (*items)[static_cast<std::size_t>(at->integer)] : choose(l, *items, at, e.range);
}

/// Bounds of an index, as far as they follow from its form; 2^62, where the arithmetic ends, is no bound.
WideInterval bounds_of(const Expr& e, const Pattern& pattern) {
  constexpr Wide kEnd = Wide{1} << 62;
  if (e.op == Op::constant) return {e.integer, e.integer};
  if (e.op == Op::variable) {
    if (e.variable != Variable::h) return {-kEnd, kEnd};
    return {0, pattern.heads ? *pattern.heads - 1 : kEnd};
  }
  const WideInterval a = bounds_of(*e.args.front(), pattern);
  const auto value = interval_of(e.op, a, e.args.size() > 1 ? bounds_of(*e.args[1], pattern) : a);
  return value ? WideInterval{std::clamp(value->lo, -kEnd, kEnd), std::clamp(value->hi, -kEnd, kEnd)}
               : WideInterval{-kEnd, kEnd};
}

/// Only an index that never lies inside is surely wrong: others may be clamped on purpose.
void check_index(Lowering& l, const Input& input, std::size_t axis, const Expr& index, SourceRange range) {
  const WideInterval at = bounds_of(index, l.pattern);
  const bool extent_known = input.axes[axis].kind == Axis::Kind::extent;
  const std::int64_t extent = input.axes[axis].extent;
  if (at.hi >= 0 && !(extent_known && at.lo >= extent)) return;
  const std::string why = at.hi < 0 ? "is always negative" : fmt::format("is never under {}", extent);
  l.report(revealed(Code::index_range, range, fmt::format("this index of '{}' {}", input.name, why)));
}

/// `t[q - (n_k - n_q)]` reads the row before the first where `t[q]` reads the row's own.
void check_position(Lowering& l, const Input& input, const Expr& index, SourceRange range) {
  const auto beyond = beyond_own_row(index);
  if (!beyond) return;
  Diagnostic d =
      revealed(Code::offset_twice, range,
               fmt::format("this index of '{}' subtracts the offset of the queries, which is done anyway", input.name),
               "a position is wanted here");
  d.notes.push_back("an index into an axis 'queries' is a position: element index - offset is read");
  if (*beyond == 0) d.fix = Fix{range, "q", "index by the position"};
  l.report(std::move(d));
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
    if (i <= input.axes.size()) {
      check_index(l, input, i - 1, *index, e.args[i].value->range);
      const bool by_query = input.axes[i - 1].kind == Axis::Kind::queries;
      if (by_query) check_position(l, input, *index, e.args[i].value->outer);
    }
    indices.push_back(index);
  }
  const Type type = input.type == InputType::f32 ? Type::real : Type::integer;
  l.use(*number);
  return limited(l, input_at(*number, type, std::move(indices), e.range), e.range);
}

/// What a kernel computes: in f32, so that a number beside an integer may fall to either side.
ExprPtr lower_whole(Lowering& l, const std::string& word, const ExprPtr& x, SourceRange range) {
  const auto make = [&](Op op, Args args) { return checked(l, op, std::move(args), range); };
  const auto below = [&](const ExprPtr& value) { return make(Op::floor, {value}); };
  if (word == "floor") return below(x);
  if (word == "ceil") return make(Op::negate, {below(make(Op::negate, {x}))});
  const ExprPtr half = constant_real(0.5), is_negative = make(Op::less, {x, constant_real(0)});
  return make(Op::select,
              {is_negative, make(Op::negate, {below(make(Op::subtract, {half, x}))}), below(make(Op::add, {x, half}))});
}

/// Integers stay as they are.
ExprPtr lower_rounding(Lowering& l, const Names& names, const dsl::Expr& e) {
  const ExprPtr value = lower_expr(l, names, *e.args[0].value);
  if (!value || value->type == Type::integer) return value;
  if (value->op != Op::constant) return lower_whole(l, e.word, value, e.range);
  const dsl::Folded whole = dsl::fold_function(e.word, {dsl::Value{value->real}});
  if (whole.value && whole.value->integer()) return constant(*whole.value->integer(), e.range);
  l.report(revealed(Code::overflow, e.range, "this integer does not fit in 64 bits"));
  return nullptr;
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
  if (e.word == "select") return lower_select(l, names, e);
  if (e.word == "floor" || e.word == "ceil" || e.word == "round") return lower_rounding(l, names, e);
  Args args;
  for (const auto& arg : e.args) args.push_back(lower_expr(l, names, *arg.value));
  if (e.word == "softcap") {
    const ExprPtr ratio = checked(l, Op::divide, args, e.range);
    return checked(l, Op::multiply, {args[1], checked(l, Op::tanh, {ratio}, e.range)}, e.range);
  }
  const auto op = find_op(e.word, std::min<std::size_t>(args.size(), 2));
  if (!op) return l.lose();
  return args.size() > 1 ? chain(l, *op, args, nullptr, e.range) : checked(l, *op, std::move(args), e.range);
}

ExprPtr lower_name(Lowering& l, const Names& names, const dsl::Expr& e) {
  if (const Value* value = recall(l, names, e)) return value->expr;
  constexpr std::array kVariables = {Variable::b,   Variable::h,   Variable::q,     Variable::k,
                                     Variable::n_q, Variable::n_k, Variable::heads, Variable::s};
  for (const Variable v : kVariables) {
    if (e.word == to_string(v)) return variable(v, e.range);
  }
  return l.lose();
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
      return lower_operator(l, e.op, {lower_expr(l, names, *e.args[0].value)}, e.range);
    case dsl::ExprKind::compare:
      return lower_chain(l, names, e);
    case dsl::ExprKind::binary: {
      if (e.op == dsl::Operator::logical_and || e.op == dsl::Operator::logical_or) return lower_logical(l, names, e);
      const ExprPtr left = lower_expr(l, names, *e.args[0].value);
      const ExprPtr right = lower_expr(l, names, *e.args[1].value);
      return lower_operator(l, e.op, {left, right}, e.range);
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
    l.report(revealed(Code::list_too_long, e.range, fmt::format("a list has {} items at most", kMostListItems)));
    return std::nullopt;
  }
  Args items;
  for (std::int64_t i = *lo; i < *hi; ++i) items.push_back(constant(i, e.range));
  return items;
}

}  // namespace

void report_too_large(Lowering& l, SourceRange range) {
  const int unreachable = std::exchange(l.unreachable, 0);
  l.report(revealed(Code::too_large, range, "this is too large once names and lists are written out"));
  l.unreachable = unreachable;
}

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
  // A name is looked for in every scope around it.
  return l.step(1 + names.depth / 8, e.range) ? lower_scalar(l, names, e) : nullptr;
}

std::optional<std::int64_t> lower_integer(Lowering& l, const Names& names, const dsl::Expr& e) {
  const ExprPtr value = lower_expr(l, names, e);
  if (!value) return std::nullopt;
  if (is_integer_constant(value)) return value->integer;
  l.report(revealed(Code::parameter_type, e.range, "this must be an integer that is known before the kernel runs"));
  return std::nullopt;
}

std::optional<double> lower_real(Lowering& l, const Names& names, const dsl::Expr& e) {
  ExprPtr value = lower_expr(l, names, e);
  if (!value) return std::nullopt;
  if (value->type == Type::integer) value = apply(Op::to_real, {value}, e.range);
  if (value->op == Op::constant && value->type == Type::real) return value->real;
  l.report(revealed(Code::parameter_type, e.range, "this must be a number that is known before the kernel runs"));
  return std::nullopt;
}

std::optional<Args> lower_list(Lowering& l, const Names& names, const dsl::Expr& e) {
  if (e.kind == dsl::ExprKind::range) return range_items(l, names, e);
  if (e.kind == dsl::ExprKind::name) {
    const Value* value = recall(l, names, e);
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
      l.report(revealed(Code::parameter_type, e.range, "these must be integers that are known before the kernel runs"));
      return std::nullopt;
    }
    out.push_back(item->integer);
  }
  return out;
}

}  // namespace weft::ir
