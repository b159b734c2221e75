#pragma once

#include "compiler/base/diagnostic.h"
#include "compiler/base/ops.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// Scalar expressions after lowering: parameters are numbers, `let` and list comprehensions are
/// gone. Used by phases, `where`, `score` and input indices.
namespace weft::ir {

enum class Type { integer, real, boolean };

using weft::apply_integer, weft::apply_real, weft::floor_div, weft::floor_mod, weft::Op;

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
  int input = -1;  ///< or number of a list
  std::vector<ExprPtr> args = {};
  SourceRange range = {};  ///< in the user's text, for messages; not part of the meaning
  /// How many items there are, where this is a choice that stands for an item of a list under an index, with `at <= 0`
  /// as its condition.
  std::int64_t items = 0;
  /// Written out, sharing ignored: what the lowering bounds, so that every walk is short.
  std::int64_t nodes = 1;
  int depth = 1;
};

// Builders fold constants, so that a node is never made unsimplified.
ExprPtr constant(std::int64_t value, SourceRange range = {});
ExprPtr constant_real(double value, SourceRange range = {});
ExprPtr constant_bool(bool value, SourceRange range = {});
ExprPtr variable(Variable v, SourceRange range = {});
/// Any op but constant, variable, input. An integer that meets a real becomes real. Integer overflow
/// and division by zero are not folded (the lowering reports them first).
ExprPtr apply(Op op, std::vector<ExprPtr> args, SourceRange range = {});
ExprPtr input_at(int input, Type type, std::vector<ExprPtr> indices, SourceRange range = {});

/// The same choice, of a list of so many items.
ExprPtr item_of_list(const ExprPtr& choice, std::int64_t items);

/// Did list number `list` choose `key` for `row`? Both count blocks of the list's size.
ExprPtr listed(int list, ExprPtr row, ExprPtr key);

bool same(const Expr& a, const Expr& b);
/// A total order by what is written, sharing ignored. Unlike same(), it tells 0.0 from -0.0.
std::strong_ordering compare(const Expr& a, const Expr& b);
/// Is this so of any node of the expression?
template <typename Question>
bool any_node(const Expr& e, const Question& is_so) {
  return is_so(e) || std::any_of(e.args.begin(), e.args.end(), [&](const ExprPtr& x) { return any_node(*x, is_so); });
}

/// Is `v` read anywhere in the expression?
bool reads(const Expr& e, Variable v);

/// An integer or a truth of h, H and constants alone: tables know it as soon as the number of heads is known.
bool over_heads_only(const Expr& e);

/// The expression with `by` in the place of variable `v`.
ExprPtr replace(const ExprPtr& e, Variable v, const ExprPtr& by);

const char* to_string(Variable v);

/// In the language's own syntax. `names` are the input names by number.
std::string print(const Expr& e, const std::vector<std::string>& input_names = {});

/// Integer value of an expression that reads only `h`, `H` and constants (head phases and the like).
/// Floor division, non-negative modulo; division by zero gives 0 (the checker refuses it before).
std::int64_t evaluate_head(const Expr& e, std::int64_t h, std::int64_t heads);

/// `alibi(h)` of semantics section 5.
double alibi_slope(std::int64_t h, std::int64_t heads);

/// The product of two positive numbers; 2^60, which no position comes near, where it is more.
inline std::int64_t bounded_product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kFar = std::int64_t{1} << 60;
  std::int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) || out > kFar ? kFar : out;
}

}  // namespace weft::ir
