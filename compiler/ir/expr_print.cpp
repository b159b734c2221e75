#include "compiler/ir/expr.h"
#include "dsl/operators.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace weft::ir {
namespace {

constexpr std::array<const char*, 8> kVariables = {"b", "h", "q", "k", "n_q", "n_k", "H", "s"};

/// How tightly a node binds as it is written; an operand that binds less tightly gets parentheses.
int level_of(const Expr& e) {
  if (e.op == Op::constant) return e.integer < 0 || std::signbit(e.real) ? dsl::kPrefixLevel : dsl::kPrimaryLevel;
  if (e.op == Op::to_real) return level_of(*e.args[0]);
  const dsl::Fixity prefix = dsl::Fixity::prefix;
  for (const auto& row : dsl::operators()) {
    if (row.spelling == facts(e.op).sign && (row.fixity == prefix) == (e.args.size() == 1)) return row.level;
  }
  return dsl::kPrimaryLevel;
}

struct Printer {
  const std::vector<std::string>& names;

  std::string list(const std::vector<ExprPtr>& args) const {
    std::string out;
    for (const auto& arg : args) out += (out.empty() ? "" : ", ") + expr(*arg);
    return out;
  }

  std::string operand(const Expr& e, int least) const {
    const std::string text = expr(e);
    return level_of(e) < least ? fmt::format("({})", text) : text;
  }

  std::string constant(const Expr& e) const {
    if (e.type == Type::boolean) return e.boolean ? "true" : "false";
    if (e.type == Type::integer) {
      // The literal of the smallest integer would overflow before its sign is applied.
      return e.integer == INT64_MIN ? fmt::format("({} - 1)", INT64_MIN + 1) : fmt::format("{}", e.integer);
    }
    const std::string text = fmt::format("{}", e.real);
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }

  std::string infix(const Expr& e) const {
    const int own = level_of(e);
    // A comparison inside a comparison would read as a chain.
    return fmt::format("{} {} {}", operand(*e.args[0], own == dsl::kChainLevel ? own + 1 : own), facts(e.op).sign,
                       operand(*e.args[1], own + 1));
  }

  std::string expr(const Expr& e) const {
    const char* const sign = facts(e.op).sign;
    switch (facts(e.op).form) {
      case Form::implicit:
        if (e.op == Op::listed) return fmt::format("({} in list{}[{}])", expr(*e.args[1]), e.input, expr(*e.args[0]));
        return expr(*e.args[0]);
      case Form::infix:
        return infix(e);
      case Form::call:
      case Form::chain:
        return fmt::format("{}({})", sign, list(e.args));
      case Form::prefix:
        return fmt::format("{}{}{}", sign, e.op == Op::negate ? "" : " ", operand(*e.args[0], dsl::kPrimaryLevel));
      case Form::leaf:
        break;
    }
    if (e.op == Op::constant) return constant(e);
    if (e.op == Op::variable) return to_string(e.variable);
    const auto number = static_cast<std::size_t>(e.input);
    const std::string name = number < names.size() ? names[number] : fmt::format("input{}", e.input);
    return fmt::format("{}[{}]", name, list(e.args));
  }
};

}  // namespace

const char* to_string(Variable v) { return kVariables[static_cast<std::size_t>(v)]; }

std::string print(const Expr& e, const std::vector<std::string>& input_names) { return Printer{input_names}.expr(e); }

}  // namespace weft::ir
