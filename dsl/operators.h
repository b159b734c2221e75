#pragma once

#include "compiler/base/ops.h"
#include "dsl/ast.h"

#include <optional>
#include <span>
#include <string_view>

namespace weft::dsl {

enum class Fixity {
  prefix,
  infix,  ///< associates to the left
  chain,  ///< neighbours of the level make one node: `a <= b < c`
  range,  ///< `..`: does not associate
};

struct OperatorInfo {
  Operator op;
  std::string_view spelling;
  int level;  ///< 1 binds loosest
  Fixity fixity;
};

inline constexpr int kNotLevel = 3;
inline constexpr int kChainLevel = 4;
inline constexpr int kRangeLevel = 5;
inline constexpr int kPrefixLevel = 9;
inline constexpr int kPrimaryLevel = 10;  ///< numbers, names, calls, lists, indexed things

/// The rows of operators.def.
std::span<const OperatorInfo> operators();

/// The row of an operator; `none` is the `..` of ranges.
const OperatorInfo& info(Operator op);

/// What an operator does to numbers and truths: empty where it joins sets only.
struct Operation {
  std::optional<Op> op;
  bool swapped = false;  ///< `a > b` is `b < a`
};
Operation operation_of(Operator op, std::size_t operands);

/// How tightly the outermost operator of `e` binds; kPrimaryLevel when it has none.
int level_of(const Expr& e);

}  // namespace weft::dsl
