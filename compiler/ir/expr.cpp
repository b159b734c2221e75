#include "compiler/ir/expr.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace weft::ir {
namespace {

using Args = std::vector<ExprPtr>;

/// Nodes counted as written out can grow as 2^depth; the count stops here.
constexpr std::int64_t kManyNodes = std::int64_t{1} << 40;

ExprPtr finish(Expr e) {
  for (const auto& arg : e.args) {
    e.nodes = std::min(kManyNodes, e.nodes + arg->nodes);
    e.depth = std::max(e.depth, arg->depth + 1);
  }
  return std::make_shared<const Expr>(std::move(e));
}

bool is_constant(const ExprPtr& e) { return e->op == Op::constant; }
bool is_integer(const ExprPtr& e, std::int64_t value) {
  return is_constant(e) && e->type == Type::integer && e->integer == value;
}
bool is_bool(const ExprPtr& e, bool value) { return is_constant(e) && e->type == Type::boolean && e->boolean == value; }

/// Operands that are values of the result's (or the comparison's) common type: all but a condition.
std::size_t first_value(Op op) { return facts(op).signature == Signature::choice ? 1 : 0; }

void unify(Op op, Args& args) {
  const Signature signature = facts(op).signature;
  if (signature == Signature::of_integer || signature == Signature::of_real) return;
  const std::size_t first = first_value(op);
  bool real = signature == Signature::reals;
  for (std::size_t i = first; i < args.size(); ++i) real = real || args[i]->type == Type::real;
  if (!real) return;
  for (std::size_t i = first; i < args.size(); ++i) {
    if (args[i]->type == Type::integer) args[i] = apply(Op::to_real, {args[i]}, args[i]->range);
  }
}

Type result_type(Op op, const Args& args) {
  const Signature signature = facts(op).signature;
  if (is_comparison(op) || signature == Signature::logic) return Type::boolean;
  if (signature == Signature::of_integer) return Type::real;
  if (signature == Signature::of_real) return Type::integer;
  return args[first_value(op)]->type;
}

ExprPtr fold_comparison(Op op, const Expr& a, const Expr& b, SourceRange range) {
  if (a.type == Type::integer) return constant_bool(holds(op, a.integer, b.integer), range);
  if (a.type == Type::real) return constant_bool(holds(op, a.real, b.real), range);
  return constant_bool(holds(op, a.boolean, b.boolean), range);
}

/// All operands are constants. Null where the value is not representable: such a node stays.
ExprPtr fold_constants(Op op, const Args& args, SourceRange range) {
  const Expr& a = *args[0];
  const Expr& b = args.size() > 1 ? *args[1] : a;
  if (op == Op::alibi) return nullptr;
  if (op == Op::floor) return constant(whole_below(a.real), range);
  if (op == Op::to_real) return constant_real(static_cast<double>(a.integer), range);
  if (is_comparison(op)) return fold_comparison(op, a, b, range);
  if (a.type == Type::integer) {
    const auto value = fold_integer(op, a.integer, b.integer);
    return value ? constant(*value, range) : nullptr;
  }
  if (a.type != Type::real) return nullptr;
  const double value = apply_real(op, a.real, b.real);
  return std::isnan(value) ? nullptr : constant_real(value, range);
}

/// `x + 0`, `1 * x` and the like, on integers, where they are exact.
ExprPtr fold_neutral(Op op, const Args& args) {
  if (args.size() != 2) return nullptr;
  const auto& [a, b] = std::pair(args[0], args[1]);
  if (op == Op::add && is_integer(a, 0)) return b;
  if ((op == Op::add || op == Op::subtract) && is_integer(b, 0)) return a;
  if (op == Op::multiply && is_integer(a, 1)) return b;
  if ((op == Op::multiply || op == Op::divide) && is_integer(b, 1)) return a;
  if (op == Op::multiply && (is_integer(a, 0) || is_integer(b, 0))) return constant(0, a->range);
  if (op == Op::modulo && is_integer(b, 1)) return constant(0, a->range);
  return nullptr;
}

std::optional<std::int64_t> shift_of(const ExprPtr& e) {
  const bool shifts = e->op == Op::add || e->op == Op::subtract;
  if (!shifts || e->type != Type::integer || !is_constant(e->args[1])) return std::nullopt;
  return fold_integer(e->op, 0, e->args[1]->integer);
}

/// `x + 2 - 1` is `x + 1`.
ExprPtr fold_shifts(Op op, const Args& args, SourceRange range) {
  if ((op != Op::add && op != Op::subtract) || !is_constant(args[1])) return nullptr;
  const auto inner = shift_of(args[0]);
  const auto total =
      inner && args[1]->type == Type::integer ? fold_integer(op, *inner, args[1]->integer) : std::nullopt;
  if (!total || *total == INT64_MIN) return nullptr;
  const ExprPtr& base = args[0]->args[0];
  return apply(*total < 0 ? Op::subtract : Op::add, {base, constant(std::abs(*total), range)}, range);
}

ExprPtr fold_logical(Op op, const Args& args, SourceRange range) {
  if (op == Op::logical_not) {
    if (is_constant(args[0])) return constant_bool(!args[0]->boolean, range);
    return args[0]->op == Op::logical_not ? args[0]->args[0] : nullptr;
  }
  if (op == Op::select && is_constant(args[0])) return args[0]->boolean ? args[1] : args[2];
  if (op != Op::logical_and && op != Op::logical_or) return nullptr;
  const bool absorbing = op == Op::logical_or;
  if (is_bool(args[0], absorbing) || is_bool(args[1], absorbing)) return constant_bool(absorbing, range);
  if (is_bool(args[0], !absorbing)) return args[1];
  if (is_bool(args[1], !absorbing)) return args[0];
  return nullptr;
}

/// Shared nodes are rebuilt once.
ExprPtr replace_in(const ExprPtr& e, Variable v, const ExprPtr& by, std::map<const Expr*, ExprPtr>& done) {
  if (e->op == Op::variable) return e->variable == v ? by : e;
  if (e->args.empty()) return e;
  ExprPtr& made = done[e.get()];
  if (made) return made;
  Args args;
  bool changed = false;
  for (const auto& arg : e->args) {
    args.push_back(replace_in(arg, v, by, done));
    changed = changed || args.back() != arg;
  }
  if (!changed) return made = e;
  if (e->op == Op::listed) return made = listed(e->input, args[0], args[1]);
  return made = e->op == Op::input ? input_at(e->input, e->type, std::move(args), e->range)
                                   : apply(e->op, std::move(args), e->range);
}

ExprPtr fold(Op op, const Args& args, SourceRange range) {
  if (op == Op::to_real && args[0]->type == Type::real) return args[0];
  if (op == Op::negate && args[0]->op == Op::negate) return args[0]->args[0];
  if (auto logical = fold_logical(op, args, range)) return logical;
  if (op != Op::select && std::all_of(args.begin(), args.end(), is_constant)) return fold_constants(op, args, range);
  if (auto shifted = fold_shifts(op, args, range)) return shifted;
  return fold_neutral(op, args);
}

}  // namespace

ExprPtr constant(std::int64_t value, SourceRange range) {
  return finish({.op = Op::constant, .type = Type::integer, .integer = value, .range = range});
}

ExprPtr constant_real(double value, SourceRange range) {
  return finish({.op = Op::constant, .type = Type::real, .real = value, .range = range});
}

ExprPtr constant_bool(bool value, SourceRange range) {
  return finish({.op = Op::constant, .type = Type::boolean, .boolean = value, .range = range});
}

ExprPtr variable(Variable v, SourceRange range) {
  return finish(
      {.op = Op::variable, .type = v == Variable::s ? Type::real : Type::integer, .variable = v, .range = range});
}

ExprPtr apply(Op op, std::vector<ExprPtr> args, SourceRange range) {
  assert(op != Op::constant && op != Op::variable && op != Op::input && !args.empty());
  unify(op, args);
  if (auto folded = fold(op, args, range)) return folded;
  const Type type = result_type(op, args);
  return finish({.op = op, .type = type, .args = std::move(args), .range = range});
}

ExprPtr input_at(int input, Type type, std::vector<ExprPtr> indices, SourceRange range) {
  return finish({.op = Op::input, .type = type, .input = input, .args = std::move(indices), .range = range});
}

ExprPtr item_of_list(const ExprPtr& choice, std::int64_t items) {
  Expr out = *choice;
  out.items = items;
  return std::make_shared<const Expr>(std::move(out));
}

ExprPtr listed(int list, ExprPtr row, ExprPtr key) {
  return finish({.op = Op::listed, .type = Type::boolean, .input = list, .args = {std::move(row), std::move(key)}});
}

bool same(const Expr& a, const Expr& b) {
  if (&a == &b) return true;
  if (a.op != b.op || a.type != b.type || a.nodes != b.nodes || a.args.size() != b.args.size()) return false;
  if (a.op == Op::constant) return a.integer == b.integer && a.real == b.real && a.boolean == b.boolean;
  if (a.op == Op::variable) return a.variable == b.variable;
  if ((a.op == Op::input || a.op == Op::listed) && a.input != b.input) return false;
  return std::equal(a.args.begin(), a.args.end(), b.args.begin(),
                    [](const ExprPtr& x, const ExprPtr& y) { return same(*x, *y); });
}

std::strong_ordering compare(const Expr& a, const Expr& b) {
  if (&a == &b) return std::strong_ordering::equal;
  const auto facts = [](const Expr& e) {
    return std::make_tuple(e.nodes, e.op, e.type, e.integer, std::bit_cast<std::uint64_t>(e.real), e.boolean,
                           e.variable, e.input, e.args.size());
  };
  if (const auto order = facts(a) <=> facts(b); order != 0) return order;
  for (std::size_t i = 0; i < a.args.size(); ++i) {
    if (const auto order = compare(*a.args[i], *b.args[i]); order != 0) return order;
  }
  return std::strong_ordering::equal;
}

bool reads(const Expr& e, Variable v) {
  return any_node(e, [v](const Expr& node) { return node.op == Op::variable && node.variable == v; });
}

bool over_heads_only(const Expr& e) {
  if (e.type == Type::real || e.op == Op::input || e.op == Op::listed) return false;
  if (e.op == Op::variable) return e.variable == Variable::h || e.variable == Variable::heads;
  return std::all_of(e.args.begin(), e.args.end(), [](const ExprPtr& arg) { return over_heads_only(*arg); });
}

ExprPtr replace(const ExprPtr& e, Variable v, const ExprPtr& by) {
  std::map<const Expr*, ExprPtr> done;
  return replace_in(e, v, by, done);
}

std::int64_t evaluate_head(const Expr& e, std::int64_t h, std::int64_t heads) {
  if (e.op == Op::constant) return e.type == Type::boolean ? e.boolean : e.integer;
  if (e.op == Op::variable) {
    assert(e.variable == Variable::h || e.variable == Variable::heads);
    return e.variable == Variable::h ? h : heads;
  }
  const auto value = [&](std::size_t i) { return evaluate_head(*e.args[i], h, heads); };
  if (e.op == Op::select) return value(value(0) != 0 ? 1 : 2);
  if (e.op == Op::logical_and) return value(0) != 0 && value(1) != 0;
  if (e.op == Op::logical_or) return value(0) != 0 || value(1) != 0;
  if (e.op == Op::logical_not) return value(0) == 0;
  if (is_comparison(e.op)) return holds(e.op, value(0), value(1));
  return apply_integer(e.op, value(0), e.args.size() > 1 ? value(1) : 0);
}

double alibi_slope(std::int64_t h, std::int64_t heads) {
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  const auto p = static_cast<double>(power), head = static_cast<double>(h);
  return h < power ? std::exp2(-8 * (head + 1) / p) : std::exp2(-8 * (2 * (head - p) + 1) / (2 * p));
}

}  // namespace weft::ir
