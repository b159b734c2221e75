#pragma once

#include "compiler/base/diagnostic.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// Scalar expressions after lowering: parameters are numbers, `let` and list comprehensions are
/// gone. Used by phases, `where`, `score` and input indices.
namespace weft::ir {

enum class Type { integer, real, boolean };

enum class Op {
  constant,  ///< `integer`, `real` or `boolean` by `type`
  variable,  ///< `variable`
  input,     ///< input number `input`, indexed by args
  add,
  subtract,
  multiply,
  divide,
  modulo,
  negate,  ///< integer: `/` floors, `%` is never negative
  minimum,
  maximum,
  absolute,
  exp,
  log,
  sqrt,
  tanh,
  sigmoid,
  select,  ///< args: condition, then, else
  less,
  less_equal,
  equal,
  not_equal,  ///< `>` and `>=` are lowered by swapping
  logical_and,
  logical_or,
  logical_not,
  to_real,
  alibi,  ///< args[0] = head: the slope of semantics section 5
};

/// `segment`, `rate` and `i` of a `branches` statement are constants by the time they get here.
enum class Variable { b, h, q, k, n_q, n_k, heads, s };

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

struct Expr {
  Op op = Op::constant;
  Type type = Type::integer;
  std::int64_t integer = 0;
  double real = 0;
  bool boolean = false;
  Variable variable = Variable::q;
  int input = -1;
  std::vector<ExprPtr> args;
  SourceRange range;  ///< in the user's text, for messages; not part of the meaning
};

// Builders fold constants, so that a node is never made unsimplified.
ExprPtr constant(std::int64_t value, SourceRange range = {});
ExprPtr constant_real(double value, SourceRange range = {});
ExprPtr constant_bool(bool value, SourceRange range = {});
ExprPtr variable(Variable v, SourceRange range = {});
/// Any op but constant, variable, input. Integer overflow and division by zero are not folded (the
/// lowering reports them first).
ExprPtr apply(Op op, std::vector<ExprPtr> args, SourceRange range = {});
ExprPtr input_at(int input, Type type, std::vector<ExprPtr> indices, SourceRange range = {});

bool same(const Expr& a, const Expr& b);
/// Is `v` read anywhere in the expression?
bool reads(const Expr& e, Variable v);

/// In the language's own syntax. `names` are the input names by number.
std::string print(const Expr& e, const std::vector<std::string>& input_names = {});

/// Integer value of an expression that reads only `h`, `H` and constants (head phases and the like).
/// Floor division, non-negative modulo; division by zero gives 0 (the checker refuses it before).
std::int64_t evaluate_head(const Expr& e, std::int64_t h, std::int64_t heads);

std::int64_t floor_div(std::int64_t a, std::int64_t b);
std::int64_t floor_mod(std::int64_t a, std::int64_t b);

}  // namespace weft::ir
