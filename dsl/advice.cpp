#include "dsl/advice.h"

#include "dsl/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace weft::dsl {
namespace {

/// exp of it is 0 in every dtype, beside any score that could be meant.
constexpr double kHidden = -1e4;

std::optional<double> number_of(const Expr& e, Scope& scope) {
  if (e.kind == ExprKind::integer) return static_cast<double>(e.integer);
  if (e.kind == ExprKind::real) return e.real;
  if (e.kind == ExprKind::unary && e.op == Operator::negate) {
    const auto of = number_of(*e.args[0].value, scope);
    return of ? std::optional(-*of) : std::nullopt;
  }
  const Symbol* known = e.kind == ExprKind::name ? scope.find(e.word) : nullptr;
  return known && known->typed.value ? known->typed.value->number() : std::nullopt;
}

bool hides(const Expr& e, Scope& scope) {
  const auto number = number_of(e, scope);
  return number && *number <= kHidden;
}

bool is_zero(const Expr& e, Scope& scope) { return number_of(e, scope) == 0.0; }

/// No set knows a score.
bool reads_score(const Expr& e, Scope& scope) {
  if (e.kind == ExprKind::name) {
    const Symbol* known = scope.find(e.word);
    return known ? (known->effects.variables & bit_of("s")) != 0 : e.word == "s";
  }
  return std::any_of(e.args.begin(), e.args.end(), [&](const Arg& arg) { return reads_score(*arg.value, scope); });
}

/// A `select` between a score and a number that hides it: `score` is null where it is added to one.
struct Hiding {
  const Expr* select;
  const Expr* score;
  bool when_true;  ///< the condition says what is kept
};

std::optional<Hiding> hiding(const Expr& e, Scope& scope) {
  if (e.kind == ExprKind::call && e.word == "select" && e.args.size() == 3) {
    const Expr& yes = *e.args[1].value;
    const Expr& no = *e.args[2].value;
    if (hides(no, scope)) return Hiding{&e, &yes, true};
    if (hides(yes, scope)) return Hiding{&e, &no, false};
  }
  if (e.kind != ExprKind::binary || e.op != Operator::add) return std::nullopt;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    auto part = hiding(*e.args[side].value, scope);
    if (!part || part->select != e.args[side].value.get() || !is_zero(*part->score, scope)) continue;
    part->score = e.args[1 - side].value.get();
    return part;
  }
  return std::nullopt;
}

std::optional<Operator> opposite(Operator op) {
  if (op == Operator::less) return Operator::greater_equal;
  if (op == Operator::less_equal) return Operator::greater;
  if (op == Operator::greater) return Operator::less_equal;
  if (op == Operator::greater_equal) return Operator::less;
  if (op == Operator::equal) return Operator::not_equal;
  return op == Operator::not_equal ? std::optional(Operator::equal) : std::nullopt;
}

std::string negated(const Expr& condition, const Findings& findings) {
  const auto op =
      condition.kind == ExprKind::compare && condition.ops.size() == 1 ? opposite(condition.ops[0]) : std::nullopt;
  if (!op) return fmt::format("not ({})", findings.whole(condition.range));
  return fmt::format("{} {} {}", findings.whole(condition.args[0].value->outer), info(*op).spelling,
                     findings.whole(condition.args[1].value->outer));
}

}  // namespace

void advise_on_score(const Statement& score, Scope& scope, Findings& findings) {
  const auto found = hiding(*score.value, scope);
  if (!found || reads_score(*found->select->args[0].value, scope)) return;
  const Expr& condition = *found->select->args[0].value;
  const std::string kept = found->when_true ? findings.whole(condition.range) : negated(condition, findings);
  const bool plain = found->score->kind == ExprKind::name && found->score->word == "s";
  const std::string rest = plain ? "" : fmt::format(" score {};", findings.whole(found->score->range));
  auto& d = findings.add(Code::hidden_keys, found->select->range,
                         "this hides keys behind a large negative number: they are read and scored all the same",
                         "a 'keep' leaves them out, which costs nothing");
  d.notes.emplace_back("a row that keeps no key then gives zero output and LSE -inf, not a mean of hidden keys");
  d.fix = Fix{score.range, fmt::format("keep where({});{}", kept, rest), "keep only what counts"};
}

}  // namespace weft::dsl
