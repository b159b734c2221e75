#include "compiler/ir/predicates.h"

#include "compiler/ir/pattern_interpreter_problem.h"

#include <algorithm>
#include <numeric>

namespace weft::ir {
namespace {

bool any_reads(const Predicate& p, Variable v) {
  for (const auto& e : {p.holds, p.key, p.lo, p.hi}) {
    if (e && reads(*e, v)) return true;
  }
  return false;
}

void collect(const ExprPtr& e, Variable row, Variable key, std::vector<ExprPtr>& out) {
  if (!reads(*e, row)) return;
  if (!reads(*e, key)) {
    const bool known = std::any_of(out.begin(), out.end(), [&](const ExprPtr& o) { return same(*o, *e); });
    if (!known) out.push_back(e);
    return;
  }
  for (const auto& arg : e->args) collect(arg, row, key, out);
}

/// gcd of the divisors through which alone the key enters; 0 where it does not.
std::int64_t unit_of(const Expr& e, Variable key) {
  if (e.op == Op::variable) return e.variable == key ? 1 : 0;
  const bool divides = e.op == Op::divide && e.type == Type::integer && e.args[0]->op == Op::variable &&
                       e.args[0]->variable == key && e.args[1]->op == Op::constant && e.args[1]->integer > 0;
  if (divides) return e.args[1]->integer;
  std::int64_t unit = 0;
  for (const auto& arg : e.args) unit = std::gcd(unit, unit_of(*arg, key));
  return unit;
}

/// By rows x of which the bound says the same; 0: by all.
std::int64_t unit_of(const Plan& plan, const Bound& bound, Stationary s) {
  using enum Bound::Kind;
  if (bound.kind == form) return unit_of(*plan.forms[static_cast<std::size_t>(bound.a)], row_variable(s));
  return bound.kind == row ? 1 : bound.kind == segment ? bound.a : 0;
}

/// A border between rows may lie where the bound is.
std::int64_t unit_of(const RowCondition& condition) {
  return condition.bound.kind == Bound::Kind::constant ? condition.bound.add : 1;
}

std::optional<PeriodicKey> periodic(const Expr& e, Variable key) {
  if (e.op == Op::variable && e.variable == key) return PeriodicKey{};
  if ((e.op != Op::divide && e.op != Op::modulo) || e.args[1]->op != Op::constant) return std::nullopt;
  const auto inner = periodic(*e.args[0], key);
  const std::int64_t by = e.args[1]->integer;
  // A remainder of a remainder is one where the second divides the first; so is a quotient.
  if (!inner || by <= 0 || inner->modulus % by != 0) return std::nullopt;
  if (e.op == Op::modulo) return PeriodicKey{inner->unit, by};
  if (inner->unit > INT64_MAX / by) return std::nullopt;
  return PeriodicKey{inner->unit * by, inner->modulus / by};
}

}  // namespace

bool operator==(const Predicate& a, const Predicate& b) {
  const auto equal = [](const ExprPtr& x, const ExprPtr& y) { return x && y ? same(*x, *y) : !x && !y; };
  return equal(a.holds, b.holds) && equal(a.key, b.key) && equal(a.lo, b.lo) && equal(a.hi, b.hi) &&
         a.modulus == b.modulus;
}

bool reads_row(const Predicate& p, Stationary s) { return any_reads(p, row_variable(s)); }
bool reads_key(const Predicate& p, Stationary s) { return any_reads(p, key_variable(s)); }
bool reads_head(const Predicate& p) { return any_reads(p, Variable::h); }

std::vector<ExprPtr> row_parts(const Predicate& p, Stationary s) {
  std::vector<ExprPtr> out;
  for (const auto& e : {p.holds, p.lo, p.hi}) {
    if (e) collect(e, row_variable(s), key_variable(s), out);
  }
  return out;
}

std::int64_t key_unit(const Predicate& p, Stationary s) {
  std::int64_t unit = 0;
  for (const auto& e : {p.holds, p.key}) {
    if (e) unit = std::gcd(unit, unit_of(*e, key_variable(s)));
  }
  return std::max<std::int64_t>(unit, 1);
}

std::int64_t listed_unit(const Predicate& p, Stationary s) {
  if (!p.holds || p.holds->op != Op::listed) return 0;
  const std::size_t of_key = s == Stationary::query ? 1 : 0;  // its arguments are a query's number and a key's
  if (reads(*p.holds->args[1 - of_key], key_variable(s))) return 0;
  const auto key = periodic(*p.holds->args[of_key], key_variable(s));
  return key && key->modulus == 0 ? key->unit : 0;
}

std::int64_t row_unit(const Plan& plan, Stationary s) {
  std::int64_t unit = 0;
  for (const Predicate& p : plan.predicates) {
    if (!reads_key(p, s)) continue;
    for (const auto& part : row_parts(p, s)) unit = std::gcd(unit, unit_of(*part, row_variable(s)));
  }
  return unit;
}

std::int64_t unit_of_rows(const Plan& plan, const std::vector<KeyRange>& ranges, Stationary s) {
  std::int64_t unit = 0;
  const auto divide = [&](std::int64_t by) { unit = std::gcd(unit, by); };
  for (const Predicate& p : plan.predicates) {
    for (const auto& part : row_parts(p, s)) divide(unit_of(*part, row_variable(s)));
  }
  for (const KeyRange& range : ranges) {
    for (const auto* bounds : {&range.lo, &range.hi}) {
      for (const Bound& bound : *bounds) divide(unit_of(plan, bound, s));
    }
    for (const RowCondition& condition : range.rows) divide(unit_of(condition));
    for (const Congruence& c : range.row_congruences) divide(c.rate > 1 || c.negated ? 1 : 0);
  }
  return unit;
}

std::optional<PeriodicKey> periodic_key(const Predicate& p, Stationary s) {
  return p.key && p.modulus == 0 ? periodic(*p.key, key_variable(s)) : std::nullopt;
}

namespace {

int list_of(const Plan& plan, std::size_t condition, bool choosers) {
  for (std::size_t i = 0; i < plan.lists.size(); ++i) {
    const List& l = plan.lists[i];
    if (l.predicate == static_cast<int>(condition) && (l.kind == List::Kind::choosers) == choosers)
      return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

int summary_of(const Plan& plan, std::size_t condition) { return list_of(plan, condition, false); }
int choosers_of(const Plan& plan, std::size_t condition) { return list_of(plan, condition, true); }

bool summary_reads(const Plan& plan, const List& summary, Variable v) {
  const Predicate& p = plan.predicates[static_cast<std::size_t>(summary.predicate)];
  return reads(summary.kind == List::Kind::spans ? *p.key : *p.holds, v);
}

struct PairValues::State {
  State(const Plan& p, const Shape& shape, const InputValues& inputs, const Tensor* q, const Tensor* k)
      : plan(p), problem{{}, shape, inputs, q, k}, scope{problem, shape.n_q, shape.n_k} {
    problem.pattern.inputs = p.inputs;
    for (const auto& l : p.lists) {
      if (l.summarizes()) continue;  // they stand behind the others, and nothing reads them
      const SetPtr set = l.kind == List::Kind::random ? make_set(SetKind::random, {l.count, l.seed})
                                                      : make_top(l.count, l.input, l.causal);
      problem.lists.emplace_back(set, l.block);
    }
  }
  const Plan& plan;
  Problem problem;
  Scope scope;  ///< refers to `problem`: a State never moves
};

PairValues::PairValues(const Plan& plan, const Shape& shape, const InputValues& inputs, const Tensor* q,
                       const Tensor* k)
    : state_(std::make_unique<State>(plan, shape, inputs, q, k)) {}

PairValues::~PairValues() = default;

const Plan& PairValues::plan() const { return state_->plan; }

bool PairValues::holds(const Predicate& p, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
  const Pair pair{b, h, q, k};
  if (p.holds) return evaluate_boolean(*p.holds, state_->scope, pair);
  const std::int64_t key = evaluate_integer(*p.key, state_->scope, pair);
  return evaluate_integer(*p.lo, state_->scope, pair) <= key && key < evaluate_integer(*p.hi, state_->scope, pair);
}

std::int64_t PairValues::integer(const Expr& e, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
  return evaluate_integer(e, state_->scope, {b, h, q, k});
}

double PairValues::number(const Expr& e, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
  const Pair pair{b, h, q, k};
  if (e.type == Type::boolean) return evaluate_boolean(e, state_->scope, pair) ? 1 : 0;
  if (e.type == Type::real) return evaluate_real(e, state_->scope, pair);
  return static_cast<double>(evaluate_integer(e, state_->scope, pair));
}

double PairValues::score(double s, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) const {
  return state_->plan.score ? evaluate_real(*state_->plan.score, state_->scope, {b, h, q, k}, s) : s;
}

double PairValues::sink_logit(std::int64_t h) const {
  return evaluate_real(*state_->plan.sink_logit, state_->scope, {.h = h});
}

}  // namespace weft::ir
