#include "compiler/ir/expr.h"

#include <gtest/gtest.h>

namespace weft::ir {
namespace {

const ExprPtr q = variable(Variable::q);
const ExprPtr k = variable(Variable::k);
const ExprPtr s = variable(Variable::s);

TEST(Expr, ConstantsFold) {
  EXPECT_EQ(print(*apply(Op::divide, {constant(-7), constant(2)})), "-4");
  EXPECT_EQ(print(*apply(Op::modulo, {constant(-7), constant(3)})), "2");
  EXPECT_EQ(print(*apply(Op::less, {constant(1), constant_real(1.5)})), "true");
  EXPECT_EQ(print(*apply(Op::multiply, {constant_real(0.5), constant(4)})), "2.0");
  EXPECT_EQ(apply(Op::add, {q, constant(0)}), q);
  EXPECT_EQ(print(*apply(Op::subtract, {apply(Op::add, {q, constant(2)}), constant(5)})), "q - 3");
  EXPECT_EQ(apply(Op::subtract, {apply(Op::add, {q, constant(2)}), constant(2)}), q);
  EXPECT_EQ(apply(Op::select, {constant_bool(false), q, k}), k);
  EXPECT_EQ(apply(Op::logical_not, {apply(Op::logical_not, {apply(Op::less, {k, q})})})->op, Op::less);
}

TEST(Expr, WhatHasNoValueStaysAsItIs) {
  EXPECT_EQ(apply(Op::divide, {constant(1), constant(0)})->op, Op::divide);
  EXPECT_EQ(apply(Op::add, {constant(INT64_MAX), constant(1)})->op, Op::add);
  EXPECT_EQ(apply(Op::negate, {constant(INT64_MIN)})->op, Op::negate);
  EXPECT_EQ(apply(Op::log, {constant_real(-1)})->op, Op::log);
  EXPECT_EQ(print(*apply(Op::log, {constant_real(0)})), "-inf");
}

TEST(Expr, IntegersBecomeRealWhereTheyMeetOne) {
  const ExprPtr sum = apply(Op::add, {s, apply(Op::subtract, {k, q})});
  EXPECT_EQ(sum->type, Type::real);
  EXPECT_EQ(sum->args[1]->op, Op::to_real);
  EXPECT_EQ(print(*sum), "s + (k - q)");
  EXPECT_EQ(apply(Op::exp, {q})->args[0]->op, Op::to_real);
}

TEST(Expr, PrintsOnlyTheParenthesesThatMatter) {
  const ExprPtr less = apply(Op::less, {k, q});
  const ExprPtr difference = apply(Op::subtract, {q, apply(Op::subtract, {k, constant(-3)})});
  EXPECT_EQ(print(*difference), "q - (k - -3)");
  EXPECT_EQ(print(*apply(Op::multiply, {apply(Op::add, {q, k}), q})), "(q + k) * q");
  EXPECT_EQ(print(*apply(Op::equal, {less, less})), "(k < q) == (k < q)");
  EXPECT_EQ(print(*apply(Op::logical_not, {apply(Op::logical_and, {less, less})})), "not (k < q and k < q)");
  EXPECT_EQ(print(*input_at(0, Type::integer, {variable(Variable::b), k}), {"doc"}), "doc[b, k]");
  EXPECT_EQ(print(*constant(INT64_MIN)), "(-9223372036854775807 - 1)");
  EXPECT_EQ(print(*constant_real(50)), "50.0");
}

TEST(Expr, SameIgnoresPlacesInTheText) {
  EXPECT_TRUE(same(*apply(Op::add, {variable(Variable::q, {1, 2}), k}), *apply(Op::add, {q, k}, {5, 9})));
  EXPECT_FALSE(same(*apply(Op::add, {q, k}), *apply(Op::add, {k, q})));
  EXPECT_FALSE(same(*constant(1), *constant_real(1)));
}

TEST(Expr, HeadExpressions) {
  const ExprPtr h = variable(Variable::h);
  const ExprPtr heads = variable(Variable::heads);
  const ExprPtr per_group = apply(Op::divide, {apply(Op::add, {heads, constant(3)}), constant(4)});
  const ExprPtr phase = apply(Op::divide, {h, per_group});
  for (std::int64_t i = 0; i < 6; ++i) EXPECT_EQ(evaluate_head(*phase, i, 6), i / 2);
  EXPECT_EQ(evaluate_head(*apply(Op::select, {apply(Op::less, {h, constant(2)}), constant(5), h}), 3, 8), 3);
  EXPECT_EQ(evaluate_head(*apply(Op::modulo, {h, apply(Op::subtract, {heads, heads})}), 3, 8), 0);
}

TEST(Expr, SizeCountsSharedPartsAgain) {
  ExprPtr e = q;
  for (int i = 0; i < 60; ++i) e = apply(Op::add, {e, e});
  EXPECT_EQ(e->depth, 61);
  EXPECT_GT(e->nodes, std::int64_t{1} << 30);
}

}  // namespace
}  // namespace weft::ir
