#include "compiler/ir/advice.h"

#include "dsl/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace weft::ir {
namespace {

/// exp of it is 0 in every dtype, beside any score that could be meant.
constexpr double kHidden = -1e4;

std::optional<double> number_of(const dsl::Expr& e, Names& names) {
  if (e.kind == dsl::ExprKind::integer) return static_cast<double>(e.integer);
  if (e.kind == dsl::ExprKind::real) return e.real;
  if (e.kind == dsl::ExprKind::unary && e.op == dsl::Operator::negate) {
    const auto of = number_of(*e.args[0].value, names);
    return of ? std::optional(-*of) : std::nullopt;
  }
  const Symbol* known = e.kind == dsl::ExprKind::name ? names.find(e.word) : nullptr;
  return known ? ir::number_of(known->value) : std::nullopt;
}

bool hides(const dsl::Expr& e, Names& names) {
  const auto number = number_of(e, names);
  return number && *number <= kHidden;
}

bool is_zero(const dsl::Expr& e, Names& names) { return number_of(e, names) == 0.0; }

/// No set knows a score.
bool reads_score(const dsl::Expr& e, Names& names) {
  if (e.kind == dsl::ExprKind::name) {
    const Symbol* known = names.find(e.word);
    return known ? (known->effects.variables & bit_of("s")) != 0 : e.word == "s";
  }
  return std::any_of(e.args.begin(), e.args.end(), [&](const dsl::Arg& arg) { return reads_score(*arg.value, names); });
}

/// A `select` between a score and a number that hides it: `score` is null where it is added to one.
struct Hiding {
  const dsl::Expr* select;
  const dsl::Expr* score;
  bool when_true;  ///< the condition says what is kept
};

std::optional<Hiding> hiding(const dsl::Expr& e, Names& names) {
  if (e.kind == dsl::ExprKind::call && e.word == "select" && e.args.size() == 3) {
    const dsl::Expr& yes = *e.args[1].value;
    const dsl::Expr& no = *e.args[2].value;
    if (hides(no, names)) return Hiding{&e, &yes, true};
    if (hides(yes, names)) return Hiding{&e, &no, false};
  }
  if (e.kind != dsl::ExprKind::binary || e.op != dsl::Operator::add) return std::nullopt;
  for (const std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    auto part = hiding(*e.args[side].value, names);
    if (!part || part->select != e.args[side].value.get() || !is_zero(*part->score, names)) continue;
    part->score = e.args[1 - side].value.get();
    return part;
  }
  return std::nullopt;
}

std::optional<dsl::Operator> opposite(dsl::Operator op) {
  if (op == dsl::Operator::less) return dsl::Operator::greater_equal;
  if (op == dsl::Operator::less_equal) return dsl::Operator::greater;
  if (op == dsl::Operator::greater) return dsl::Operator::less_equal;
  if (op == dsl::Operator::greater_equal) return dsl::Operator::less;
  if (op == dsl::Operator::equal) return dsl::Operator::not_equal;
  return op == dsl::Operator::not_equal ? std::optional(dsl::Operator::equal) : std::nullopt;
}

std::string negated(const dsl::Expr& condition, const dsl::Findings& findings) {
  const auto op =
      condition.kind == dsl::ExprKind::compare && condition.ops.size() == 1 ? opposite(condition.ops[0]) : std::nullopt;
  if (!op) return fmt::format("not ({})", findings.whole(condition.range));
  return fmt::format("{} {} {}", findings.whole(condition.args[0].value->outer), dsl::info(*op).spelling,
                     findings.whole(condition.args[1].value->outer));
}

}  // namespace

void advise_on_score(const dsl::Statement& score, Names& names, dsl::Findings& findings) {
  const auto found = hiding(*score.value, names);
  if (!found || reads_score(*found->select->args[0].value, names)) return;
  const dsl::Expr& condition = *found->select->args[0].value;
  const std::string kept = found->when_true ? findings.whole(condition.range) : negated(condition, findings);
  const bool plain = found->score->kind == dsl::ExprKind::name && found->score->word == "s";
  const std::string rest = plain ? "" : fmt::format(" score {};", findings.whole(found->score->range));
  auto& d = findings.add(dsl::Code::hidden_keys, found->select->range,
                         "this hides keys behind a large negative number: they are read and scored all the same",
                         "a 'keep' leaves them out, which costs nothing");
  d.notes.emplace_back("a row that keeps no key then gives zero output and LSE -inf, not a mean of hidden keys");
  d.fix = Fix{score.range, fmt::format("keep where({});{}", kept, rest), "keep only what counts"};
}

}  // namespace weft::ir
