#include "compiler/planner/context.h"

#include <algorithm>

namespace weft::planner {
namespace {

using ir::ExprPtr;
using ir::Op;
using ir::Variable;

/// No position comes near it, so that larger numbers of the user mean the same and nothing overflows.
constexpr std::int64_t kFar = std::int64_t{1} << 60;

}  // namespace

ExprPtr plus(ExprPtr a, ExprPtr b) { return ir::apply(Op::add, {std::move(a), std::move(b)}); }
ExprPtr minus(ExprPtr a, ExprPtr b) { return ir::apply(Op::subtract, {std::move(a), std::move(b)}); }
ExprPtr times(ExprPtr a, std::int64_t b) { return ir::apply(Op::multiply, {std::move(a), ir::constant(b)}); }
ExprPtr over(ExprPtr a, std::int64_t b) {
  // floor(floor(x / a) / b) = floor(x / (a b)): divisions of positions stay recognisable.
  std::int64_t product = 0;
  const bool nested = a->op == Op::divide && a->args[1]->op == Op::constant && a->args[1]->integer > 0 && b > 0 &&
                      !__builtin_mul_overflow(a->args[1]->integer, b, &product);
  if (nested) return ir::apply(Op::divide, {a->args[0], ir::constant(product)});
  return ir::apply(Op::divide, {std::move(a), ir::constant(b)});
}
ExprPtr modulo(ExprPtr a, std::int64_t b) { return ir::apply(Op::modulo, {std::move(a), ir::constant(b)}); }
ExprPtr least(ExprPtr a, ExprPtr b) { return ir::apply(Op::minimum, {std::move(a), std::move(b)}); }
ExprPtr largest(ExprPtr a, ExprPtr b) { return ir::apply(Op::maximum, {std::move(a), std::move(b)}); }

Context::Context(Draft& draft) : draft_(&draft), transposed_(draft.options.stationary == ir::Stationary::key) {}

Context Context::inside(std::int64_t size) const { return with_unit(scaled(size)); }

Context Context::with_unit(std::int64_t unit) const {
  Context out = *this;
  out.unit_ = unit;
  return out;
}

std::int64_t Context::scaled(std::int64_t n) const {
  const std::int64_t limit = kFar / unit_;
  return std::clamp(n, -limit, limit) * unit_;
}

Conjunction Context::key_at_most(std::int64_t c) const {
  const auto from_row = [&](std::int64_t add) { return unit_ == 1 ? row(add) : segment(unit_, add); };
  return transposed_ ? at_least(from_row(scaled(-c))) : below(from_row(scaled(c) + unit_));
}

Conjunction Context::key_within(std::int64_t a) const {
  const auto from_row = [&](std::int64_t add) { return unit_ == 1 ? row(add) : segment(unit_, add); };
  return transposed_ ? below(from_row(scaled(a) + unit_)) : at_least(from_row(scaled(-a)));
}

Conjunction Context::same_segment(std::int64_t w) const {
  const std::int64_t tokens = scaled(w);
  return all_of(at_least(segment(tokens, 0)), below(segment(tokens, tokens)));
}

Conjunction Context::key_is(ir::Congruence c) const { return congruent(std::move(c), transposed_); }
Conjunction Context::query_is(ir::Congruence c) const { return congruent(std::move(c), !transposed_); }

Conjunction Context::key_modulo(std::int64_t modulus, std::int64_t sign, std::int64_t shift) const {
  if (modulus == 1) return {};
  // Of the streamed side by the row: q = sign * k - sign * shift.
  const ExprPtr add = ir::constant(ir::floor_mod(transposed_ ? -sign * shift : shift, modulus));
  ExprPtr of_row = stationary();
  if (sign < 0) {
    of_row = minus(add, of_row);
  } else if (add->integer != 0) {
    of_row = plus(of_row, add);
  }
  const ExprPtr lo = modulo(of_row, modulus);
  return pair({.holds = nullptr,
               .key = modulo(streamed(), modulus),
               .lo = lo,
               .hi = plus(lo, ir::constant(1)),
               .modulus = unit_ == 1 ? modulus : 0});
}

Conjunction Context::equal(ExprPtr of_query, ExprPtr of_key) const {
  if (transposed_) std::swap(of_query, of_key);
  const ExprPtr hi = plus(of_query, ir::constant(1));
  return pair({.holds = nullptr, .key = std::move(of_key), .lo = std::move(of_query), .hi = hi});
}

Conjunction Context::between(ExprPtr of_streamed, ExprPtr lo, ExprPtr hi) const {
  return pair({.holds = nullptr, .key = std::move(of_streamed), .lo = std::move(lo), .hi = std::move(hi)});
}

Conjunction Context::condition(ExprPtr holds) const {
  return pair({.holds = std::move(holds), .key = nullptr, .lo = nullptr, .hi = nullptr});
}

Conjunction Context::pair(ir::Predicate p) const {
  auto& all = draft_->plan.predicates;
  auto at = std::find(all.begin(), all.end(), p);
  if (at == all.end()) at = all.insert(all.end(), std::move(p));
  return pair_is({static_cast<int>(at - all.begin()), false});
}

Conjunction Context::listed(ir::List list) const {
  list.block = unit_;
  auto& all = draft_->plan.lists;
  auto at = std::find(all.begin(), all.end(), list);
  if (at == all.end()) at = all.insert(all.end(), list);
  return condition(ir::listed(static_cast<int>(at - all.begin()), query(), key()));
}

ir::Bound Context::form(ExprPtr tokens, std::int64_t slack) const {
  auto& all = draft_->plan.forms;
  auto at = std::find_if(all.begin(), all.end(), [&](const ExprPtr& f) { return ir::same(*f, *tokens); });
  if (at == all.end()) at = all.insert(all.end(), std::move(tokens));
  return {.kind = ir::Bound::Kind::form, .a = at - all.begin(), .b = slack, .add = 0};
}

ExprPtr Context::position(Variable v) const { return over(ir::variable(v), unit_); }

ExprPtr Context::count() const { return over(plus(ir::variable(Variable::n_k), ir::constant(unit_ - 1)), unit_); }

ExprPtr Context::positions(ExprPtr e) const {
  if (unit_ == 1) return e;
  // n_q and n_k both are the number of blocks, which is written with n_k: that one first.
  e = ir::replace(e, Variable::n_k, count());
  e = ir::replace(e, Variable::n_q, count());
  e = ir::replace(e, Variable::q, query());
  return ir::replace(e, Variable::k, key());
}

ExprPtr Context::element(int input, const std::vector<ExprPtr>& at) const {
  const ir::Input& in = draft_->pattern.inputs[static_cast<std::size_t>(input)];
  std::vector<ExprPtr> index;
  std::size_t next = 0;
  for (const auto& axis : in.axes) {
    if (axis.kind == ir::Axis::Kind::batch) {
      index.push_back(ir::variable(Variable::b));
    } else if (axis.kind == ir::Axis::Kind::heads) {
      index.push_back(ir::variable(Variable::h));
    } else {
      index.push_back(next < at.size() ? at[next++] : ir::constant(0));
    }
  }
  return ir::input_at(input, in.type == ir::InputType::f32 ? ir::Type::real : ir::Type::integer, std::move(index));
}

}  // namespace weft::planner
