#include "compiler/ir/pattern_interpreter_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace weft::ir {
namespace {

std::int64_t variable_value(Variable v, const Scope& scope, const Pair& pair) {
  switch (v) {
    case Variable::b:
      return pair.b;
    case Variable::h:
      return pair.h;
    case Variable::q:
      return pair.q;
    case Variable::k:
      return pair.k;
    case Variable::n_q:
      return scope.n_q;
    case Variable::n_k:
      return scope.n_k;
    case Variable::heads:
      return scope.problem.shape.heads;
    case Variable::s:
      break;
  }
  return 0;
}

/// Counts a read beyond an end, and puts the first into words.
template <typename Words>
void note_outside(const Problem& problem, const Pair& pair, const Words& words) {
  Clamped& clamped = problem.clamped;
  if (clamped.count++ > 0) return;
  clamped.first =
      fmt::format("{} (batch entry {}, head {}, query {}, key {})", words(), pair.b, pair.h, pair.q, pair.k);
}

/// Strides are those of the row-major tensor; an axis of extent 0 has no element to give.
Element find(const Problem& problem, std::size_t number, const std::vector<std::int64_t>& index, const Pair& pair) {
  const Tensor& tensor = problem.inputs[number];
  const Input& input = problem.pattern.inputs[number];
  const std::int64_t offset = problem.shape.offset_of(pair.b);
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::int64_t extent = tensor.shape[i];
    if (extent == 0) return {number, -1};
    const std::int64_t at =
        input.axes[i].kind == Axis::Kind::queries ? apply_integer(Op::subtract, index[i], offset) : index[i];
    if (at < 0 || at >= extent) {
      note_outside(problem, pair, [&] {
        return fmt::format("axis {} of '{}' has the extent {}, and the index is {}", i, input.name, extent, at);
      });
    }
    flat = flat * extent + std::clamp<std::int64_t>(at, 0, extent - 1);
  }
  return {number, flat};
}

bool listed(const Expr& e, const Scope& scope, const Pair& pair, double s) {
  const auto& [set, block] = scope.problem.lists[static_cast<std::size_t>(e.input)];
  const std::int64_t count = (scope.problem.shape.n_k + block - 1) / block;
  const std::int64_t row = evaluate_integer(*e.args[0], scope, pair, s);
  const std::int64_t key = evaluate_integer(*e.args[1], scope, pair, s);
  const auto& keys = drawn_keys(*set, {scope.problem, count, count, block}, {pair.b, pair.h, row, key});
  return std::binary_search(keys.begin(), keys.end(), key);
}

}  // namespace

Element element_read(const Expr& e, const Scope& scope, const Pair& pair, double s) {
  std::vector<std::int64_t> index;
  for (const auto& arg : e.args) index.push_back(evaluate_integer(*arg, scope, pair, s));
  return find(scope.problem, static_cast<std::size_t>(e.input), index, pair);
}

double value_of(const Problem& problem, const Element& element) {
  const Tensor& tensor = problem.inputs[element.input];
  if (element.at < 0) return 0;
  return tensor.made ? tensor.made(element.at) : tensor.data[static_cast<std::size_t>(element.at)];
}

bool takes_first(const Expr& e, const Scope& scope, const Pair& pair, double s) {
  if (e.items > 0) {
    const std::int64_t at = evaluate_integer(*e.args[0]->args[0], scope, pair, s);
    if (at < 0 || at >= e.items) {
      note_outside(scope.problem, pair,
                   [&] { return fmt::format("a list has {} items, and the index is {}", e.items, at); });
    }
  }
  return evaluate_boolean(*e.args[0], scope, pair, s);
}

double element(const Scope& scope, int input, const Pair& pair, const std::vector<std::int64_t>& positions) {
  const auto number = static_cast<std::size_t>(input);
  const Problem& problem = scope.problem;
  const auto& axes = problem.pattern.inputs[number].axes;
  std::vector<std::int64_t> index;
  std::size_t next = 0;
  for (const auto& axis : axes) {
    if (axis.kind == Axis::Kind::batch) {
      index.push_back(pair.b);
    } else if (axis.kind == Axis::Kind::heads) {
      index.push_back(pair.h);
    } else {
      index.push_back(next < positions.size() ? positions[next++] : 0);
    }
  }
  return value_of(problem, find(problem, number, index, pair));
}

std::int64_t evaluate_integer(const Expr& e, const Scope& scope, const Pair& pair, double s) {
  if (e.op == Op::constant) return e.integer;
  if (e.op == Op::variable) return variable_value(e.variable, scope, pair);
  if (e.op == Op::input) {
    return static_cast<std::int64_t>(value_of(scope.problem, element_read(e, scope, pair, s)));
  }
  if (e.op == Op::select) {
    return evaluate_integer(*e.args[takes_first(e, scope, pair, s) ? 1 : 2], scope, pair, s);
  }
  if (e.op == Op::floor) return whole_below(evaluate_real(*e.args[0], scope, pair, s));
  const std::int64_t a = evaluate_integer(*e.args[0], scope, pair, s);
  return apply_integer(e.op, a, e.args.size() > 1 ? evaluate_integer(*e.args[1], scope, pair, s) : 0);
}

double evaluate_real(const Expr& e, const Scope& scope, const Pair& pair, double s) {
  return real_value(e, scope, pair, s, as_it_is);
}

bool evaluate_boolean(const Expr& e, const Scope& scope, const Pair& pair, double s) {
  const auto boolean = [&](std::size_t i) { return evaluate_boolean(*e.args[i], scope, pair, s); };
  if (e.op == Op::constant) return e.boolean;
  if (e.op == Op::listed) return listed(e, scope, pair, s);
  if (e.op == Op::logical_and) return boolean(0) && boolean(1);
  if (e.op == Op::logical_or) return boolean(0) || boolean(1);
  if (e.op == Op::logical_not) return !boolean(0);
  if (e.op == Op::select) return boolean(takes_first(e, scope, pair, s) ? 1 : 2);
  const Expr& a = *e.args[0];
  const Expr& b = *e.args[1];
  if (a.type == Type::boolean) return (boolean(0) == boolean(1)) == (e.op == Op::equal);
  if (a.type == Type::real) return holds(e.op, evaluate_real(a, scope, pair, s), evaluate_real(b, scope, pair, s));
  return holds(e.op, evaluate_integer(a, scope, pair, s), evaluate_integer(b, scope, pair, s));
}

}  // namespace weft::ir
