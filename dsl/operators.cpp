#include "dsl/operators.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace weft::dsl {
namespace {

constexpr OperatorInfo kOperators[] = {
#define WEFT_OPERATOR(op, spelling, level, fixity) {Operator::op, spelling, level, Fixity::fixity},
#include "dsl/operators.def"
};

}  // namespace

std::span<const OperatorInfo> operators() { return kOperators; }

const OperatorInfo& info(Operator op) {
  const auto* row = std::find_if(std::begin(kOperators), std::end(kOperators),
                                 [op](const OperatorInfo& candidate) { return candidate.op == op; });
  assert(row != std::end(kOperators));
  return *row;
}

Operation operation_of(Operator op, std::size_t operands) {
  if (op == Operator::greater) return {.op = Op::less, .swapped = true};
  if (op == Operator::greater_equal) return {.op = Op::less_equal, .swapped = true};
  return {.op = find_op(info(op).spelling, operands)};
}

int level_of(const Expr& e) {
  switch (e.kind) {
    case ExprKind::unary:
    case ExprKind::binary:
      return info(e.op).level;
    case ExprKind::compare:
      return kChainLevel;
    case ExprKind::range:
      return kRangeLevel;
    case ExprKind::integer:
    case ExprKind::real:
    case ExprKind::boolean:
    case ExprKind::name:
    case ExprKind::list:
    case ExprKind::call:
    case ExprKind::comprehension:
    case ExprKind::index:
      return kPrimaryLevel;
  }
  return kPrimaryLevel;
}

}  // namespace weft::dsl
