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
