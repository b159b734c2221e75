// Sets where a condition is wanted, and conditions where numbers are: what is meant is clear, and offered.

#include "compiler/ir/elaborate.h"
#include "dsl/operators.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::ir {
namespace {

/// The operands of a chain of one connective, from left to right.
void flatten(const dsl::Expr& e, Operator op, std::vector<const dsl::Expr*>& out) {
  if (e.kind == ExprKind::binary && e.op == op && (out.empty() || e.outer == e.range)) {
    flatten(*e.args[0].value, op, out);
    flatten(*e.args[1].value, op, out);
    return;
  }
  out.push_back(&e);
}

}  // namespace

bool Elaborator::is_set(const dsl::Expr& e) {
  if (e.kind == ExprKind::name) {
    if (const Symbol* known = names_.find(e.word)) return known->value.kind == Kind::set;
    return dsl::find_set(e.word) != nullptr && e.word != "segment";
  }
  if (e.kind == ExprKind::call) return dsl::find_set(e.word) != nullptr && e.word != "all";
  if (e.kind == ExprKind::unary) return e.op != Operator::negate && is_set(*e.args[0].value);
  if (e.kind != ExprKind::binary) return false;
  const bool of_sets = e.op == Operator::intersect || e.op == Operator::unite || e.op == Operator::subtract;
  const bool connects = e.op == Operator::logical_and || e.op == Operator::logical_or;
  return (of_sets || connects) && is_set(*e.args[0].value) && is_set(*e.args[1].value);
}

/// `where(causal and q < 9)` is `causal & where(q < 9)`; true when it was reported.
bool Elaborator::sets_in_condition(const dsl::Expr& e, SourceRange whole) {
  const bool either = e.kind == ExprKind::binary && e.op == Operator::logical_or;
  std::vector<const dsl::Expr*> parts;
  const bool chain = either || (e.kind == ExprKind::binary && e.op == Operator::logical_and);
  if (chain) {
    flatten(*e.args[0].value, e.op, parts);
    flatten(*e.args[1].value, e.op, parts);
  } else {
    parts.push_back(&e);
  }
  const auto first = std::find_if(parts.begin(), parts.end(), [&](const dsl::Expr* part) { return is_set(*part); });
  if (first == parts.end()) return false;
  std::string sets, conditions;
  const std::string_view set_sign = either ? " | " : " & ";
  for (const dsl::Expr* part : parts) {
    if (!is_set(*part)) {
      conditions += fmt::format("{}{}",
                                conditions.empty() ? ""
                                : either           ? " or "
                                                   : " and ",
                                findings_.whole(part->outer));
      continue;
    }
    const bool negated = part->kind == ExprKind::unary && part->op == Operator::logical_not;
    const dsl::Expr& of = negated ? *part->args[0].value : *part;
    const bool bare = of.kind == ExprKind::binary && of.outer == of.range && (negated || parts.size() > 1);
    const std::string text = findings_.whole(of.outer);
    sets += fmt::format("{}{}{}{}{}", sets.empty() ? "" : set_sign, negated ? "!" : "", bare ? "(" : "", text,
                        bare ? ")" : "");
  }
  if (!conditions.empty()) sets += fmt::format("{}where({})", set_sign, conditions);
  if (parts.size() > 1 || (e.kind == ExprKind::binary && e.outer == e.range)) sets = findings_.embedded(sets, whole);
  auto& d = findings_.add(Code::wrong_type, (*first)->outer,
                          fmt::format("'{}' is a set, and 'where' takes a condition", findings_.text((*first)->outer)));
  d.fix = Fix{whole, sets,
              parts.size() > 1 ? "join sets by '&' and '|', and conditions inside 'where'" : "write the set itself"};
  return true;
}

/// `s * (k <= q)` is `select(k <= q, s, 0)`; true when it was reported.
bool Elaborator::boolean_as_number(const dsl::Expr& e, const Value& left, const Value& right) {
  const bool first = left.kind == Kind::boolean;
  if (first == (right.kind == Kind::boolean) || !is_number((first ? right : left).kind)) return false;
  if (e.op != Operator::multiply && e.op != Operator::add && e.op != Operator::subtract) return false;
  const dsl::Expr& condition = *e.args[first ? 0 : 1].value;
  const dsl::Expr& number = *e.args[first ? 1 : 0].value;
  const bool product = e.op == Operator::multiply;
  const std::string text = findings_.whole(condition.range);
  const std::string_view zero = (first ? right : left).kind == Kind::real ? "0.0" : "0";
  auto& d = findings_.add(Code::wrong_type, condition.outer,
                          fmt::format("'{}' is a boolean, which is no number", findings_.text(condition.outer)),
                          "'select' makes a number of it");
  d.fix = product ? Fix{e.outer, fmt::format("select({}, {}, {})", text, findings_.whole(number.range), zero),
                        "choose between the number and nothing"}
                  : Fix{condition.outer, fmt::format("select({}, 1, 0)", text), "choose between 1 and 0"};
  return true;
}

/// `causal + window(3, 0)`; true when it was reported.
bool Elaborator::arithmetic_on_sets(const dsl::Expr& e, const Value& left, const Value& right) {
  if (left.kind != Kind::set || right.kind != Kind::set) return false;
  if (e.op != Operator::add && e.op != Operator::multiply) return false;
  const bool adds = e.op == Operator::add;
  const std::string_view sign = adds ? "+" : "*", meant = adds ? "|" : "&";
  const dsl::Expr& a = *e.args[0].value;
  const dsl::Expr& b = *e.args[1].value;
  auto& d = findings_.add(Code::wrong_connective, findings_.find_sign({a.outer.end, b.outer.begin}, sign),
                          fmt::format("'{}' does not join sets", sign));
  d.label = adds ? "what is in either is written with '|'" : "what is in both is written with '&'";
  const std::string joined = fmt::format("{} {} {}", findings_.whole(a.outer), meant, findings_.whole(b.outer));
  d.fix =
      Fix{e.range, e.outer == e.range ? findings_.embedded(joined, e.range) : joined, fmt::format("write '{}'", meant)};
  return true;
}

}  // namespace weft::ir
