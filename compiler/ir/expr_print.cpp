#include "compiler/ir/expr.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace weft::ir {
namespace {

enum class Form { leaf, prefix, infix, call, implicit };

struct OpInfo {
  const char* spelling;
  Form form;
  int arity;
};

constexpr OpInfo kOps[] = {
#define WEFT_OP(name, spelling, form, arity) {spelling, Form::form, arity},
#include "compiler/ir/ops.def"
};

constexpr std::array<const char*, 8> kVariables = {"b", "h", "q", "k", "n_q", "n_k", "H", "s"};

const OpInfo& info(Op op) { return kOps[static_cast<std::size_t>(op)]; }

/// How tightly a node binds as it is written; an operand that binds less tightly gets parentheses.
enum Tightness { loosest, disjunction, conjunction, negation, comparison, sum, product, sign, primary };

Tightness tightness(const Expr& e);

Tightness infix_tightness(Op op) {
  if (op == Op::logical_or) return disjunction;
  if (op == Op::logical_and) return conjunction;
  if (op == Op::add || op == Op::subtract) return sum;
  if (op == Op::multiply || op == Op::divide || op == Op::modulo) return product;
  return comparison;
}

Tightness tightness(const Expr& e) {
  if (e.op == Op::constant) {
    return e.integer < 0 || std::signbit(e.real) ? sign : primary;
  }
  if (e.op == Op::to_real) return tightness(*e.args[0]);
  if (e.op == Op::negate) return sign;
  if (e.op == Op::logical_not) return negation;
  return info(e.op).form == Form::infix ? infix_tightness(e.op) : primary;
}

struct Printer {
  const std::vector<std::string>& names;

  std::string list(const std::vector<ExprPtr>& args) const {
    std::string out;
    for (const auto& arg : args) out += (out.empty() ? "" : ", ") + expr(*arg);
    return out;
  }

  std::string operand(const Expr& e, Tightness least) const {
    const std::string text = expr(e);
    return tightness(e) < least ? fmt::format("({})", text) : text;
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
    const Tightness own = infix_tightness(e.op);
    const auto next = static_cast<Tightness>(own + 1);
    // A comparison inside a comparison would read as a chain.
    return fmt::format("{} {} {}", operand(*e.args[0], own == comparison ? next : own), info(e.op).spelling,
                       operand(*e.args[1], next));
  }

  std::string expr(const Expr& e) const {
    switch (info(e.op).form) {
      case Form::implicit:
        return expr(*e.args[0]);
      case Form::infix:
        return infix(e);
      case Form::call:
        return fmt::format("{}({})", info(e.op).spelling, list(e.args));
      case Form::prefix:
        return fmt::format("{}{}{}", info(e.op).spelling, e.op == Op::negate ? "" : " ", operand(*e.args[0], primary));
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

const char* to_string(Op op) { return info(op).spelling; }
const char* to_string(Variable v) { return kVariables[static_cast<std::size_t>(v)]; }

std::string print(const Expr& e, const std::vector<std::string>& input_names) { return Printer{input_names}.expr(e); }

}  // namespace weft::ir
