#include "tests/ir/problem.h"

#include "compiler/ir/philox.h"

#include <cmath>
#include <limits>

namespace weft::ir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

SetPtr of(SetKind kind, std::vector<std::int64_t> args = {}) { return make_set(kind, std::move(args)); }
SetPtr negate(const SetPtr& set) { return make_set(SetKind::complement, std::vector<SetPtr>{set}); }
SetPtr both(const SetPtr& a, const SetPtr& b) { return make_set(SetKind::intersection, std::vector<SetPtr>{a, b}); }

/// LongNet in small: ragged segments, a rate that does not divide its segment, causal.
Pattern longnet(Combine combine = Combine::joint) {
  const ExprPtr h = variable(Variable::h);
  Pattern p;
  for (const auto& [w, r] : {std::pair<std::int64_t, std::int64_t>{5, 1}, {7, 2}, {64, 3}}) {
    p.branches.push_back({both(make_dilated(w, r, h, false), of(SetKind::causal)), {}, {}});
  }
  p.combine = combine;
  return p;
}

constexpr Combine kCombines[] = {Combine::joint, Combine::joint_detached, Combine::unite, Combine::sum, Combine::mean};

TEST(Interpreter, OneKeyIsTheValueItself) {
  const TestProblem problem({}, square(1, 3));
  const Outcome out = problem.run();
  EXPECT_EQ(out.o.data, problem.v.data);
}

TEST(Interpreter, JointCountsAPairOnceForEachBranchAndUnionOnce) {
  TestProblem twice(pattern_of({of(SetKind::all), of(SetKind::sink, {1})}), square(2, 1, 1));
  twice.q.data = {0, 0};
  twice.v.data = {3, 0};
  EXPECT_DOUBLE_EQ(twice.run().o.data[0], 2.0);
  EXPECT_DOUBLE_EQ(twice.run().lse.data[0], std::log(3.0));
  twice.pattern.combine = Combine::unite;
  EXPECT_DOUBLE_EQ(twice.run().o.data[0], 1.5);
  twice.pattern.combine = Combine::sum;
  EXPECT_DOUBLE_EQ(twice.run().o.data[0], 4.5);
  twice.pattern.combine = Combine::mean;
  EXPECT_DOUBLE_EQ(twice.run().o.data[0], 2.25);
  EXPECT_TRUE(twice.run().lse.data.empty());
}

/// A key that scores the sink's logit and whose V is 0 says the same.
TEST(Interpreter, ASinkIsAKeyWithoutAValue) {
  const SetPtr late = of(SetKind::window, {3, -1});
  for (const Combine combine : {Combine::joint, Combine::joint_detached, Combine::unite}) {
    TestProblem problem(pattern_of({late, of(SetKind::window, {5, -2})}, combine), square(12, 2));
    const Outcome without = problem.run();
    problem.pattern.sink_logit = apply(Op::subtract, {constant_real(1.5), apply(Op::to_real, {variable(Variable::h)})});
    const Outcome with = problem.run();
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t row = 0; row < 12; ++row) {
        const auto at = static_cast<std::size_t>(h * 12 + row);
        const double sink = 1.5 - static_cast<double>(h), lse = without.lse.data[at];
        EXPECT_DOUBLE_EQ(with.lse.data[at], std::log(std::exp(lse) + std::exp(sink)));
        const double share = std::exp(lse - with.lse.data[at]);
        EXPECT_NEAR(with.o.at(0, row, h, 1), share * without.o.at(0, row, h, 1), 1e-15);
      }
      EXPECT_EQ(with.lse.data[static_cast<std::size_t>(h * 12)], 1.5 - static_cast<double>(h)) << "no key";
      EXPECT_EQ(with.o.at(0, 0, h, 0), 0);
    }
    problem.pattern.sink_logit = constant_real(-kInfinity);
    EXPECT_EQ(problem.run().lse.data, without.lse.data);
    EXPECT_EQ(problem.run().o.data, without.o.data);
  }
}

TEST(Interpreter, SigmoidsAreNotDividedByAnything) {
  TestProblem problem(pattern_of({of(SetKind::all), of(SetKind::sink, {1})}), square(2, 1, 1));
  problem.q.data = {0, 0};
  problem.v.data = {3, 10};
  problem.pattern.sigmoid = apply(Op::subtract, {variable(Variable::s), constant_real(std::log(3.0))});
  const Outcome out = problem.run();
  EXPECT_DOUBLE_EQ(out.o.data[0], 0.25 * (2 * 3 + 10)) << "sigmoid(-log 3) is a quarter";
  EXPECT_TRUE(out.lse.data.empty() && out.branch_lse.data.empty());
  EXPECT_EQ(out.largest_sum, 1) << "no more than a softmax has";
  problem.pattern.combine = Combine::unite;
  EXPECT_DOUBLE_EQ(problem.run().o.data[0], 0.25 * (3 + 10));
  problem.pattern.sigmoid = constant_real(kInfinity);
  EXPECT_DOUBLE_EQ(problem.run().o.data[0], 13);
  EXPECT_EQ(problem.run().largest_sum, 2);
  EXPECT_DOUBLE_EQ(error_bounds(problem.pattern, DType::f32, 2, 1, 0, 2).o,
                   2 * error_bounds(problem.pattern, DType::f32, 2, 1, 0).o);
}

TEST(Interpreter, JointIsTheMixByDenominators) {
  const TestProblem joint(longnet(), square(23, 2));
  const Outcome out = joint.run();
  Tensor mixed(out.o.shape);
  for (std::size_t i = 0; i < 3; ++i) {
    TestProblem one = joint;
    one.pattern.branches = {joint.pattern.branches[i]};
    const Outcome part = one.run();
    for (std::int64_t q = 0; q < 23; ++q) {
      for (std::int64_t h = 0; h < 2; ++h) {
        const auto row = static_cast<std::size_t>(h * 23 + q);
        EXPECT_DOUBLE_EQ(part.lse.data[row], out.branch_lse.data[i * 46 + row]);
        const double share = std::exp(part.lse.data[row] - out.lse.data[row]);
        for (std::int64_t d = 0; d < 4; ++d) mixed.at(0, q, h, d) += share * part.o.at(0, q, h, d);
      }
    }
  }
  for (std::size_t i = 0; i < mixed.data.size(); ++i) EXPECT_NEAR(mixed.data[i], out.o.data[i], 1e-14);
}

// Semantics section 11, check 1.
TEST(Interpreter, CausalOutputsIgnoreLaterTokens) {
  for (const Combine combine : kCombines) {
    TestProblem problem(longnet(combine), square(23, 3));
    const Outcome before = problem.run();
    for (std::int64_t h = 0; h < 3; ++h) {
      problem.k.at(0, 12, h, 1) = 9;
      problem.v.at(0, 12, h, 2) = kInfinity;
    }
    const Outcome after = problem.run();
    for (std::int64_t i = 0; i < 12 * 3 * 4; ++i) {
      EXPECT_EQ(before.o.data[static_cast<std::size_t>(i)], after.o.data[static_cast<std::size_t>(i)]);
    }
    EXPECT_NE(before.o.at(0, 12, 0, 1), after.o.at(0, 12, 0, 1));
  }
}

// Check 2.
TEST(Interpreter, WeightsSumToOneWhereTheLseIsFinite) {
  for (const Combine combine : {Combine::joint, Combine::unite}) {
    Pattern p = longnet(combine);
    p.branches.erase(p.branches.begin());
    TestProblem problem(p, square(23, 5));
    std::fill(problem.v.data.begin(), problem.v.data.end(), 1.0);
    const Outcome out = problem.run();
    int uncovered = 0;
    for (std::int64_t h = 0; h < 5; ++h) {
      for (std::int64_t q = 0; q < 23; ++q) {
        const double lse = out.lse.data[static_cast<std::size_t>(h * 23 + q)];
        uncovered += lse == -kInfinity;
        EXPECT_NEAR(out.o.at(0, q, h, 3), lse == -kInfinity ? 0 : 1, 1e-14);
      }
    }
    EXPECT_GT(uncovered, 0);
  }
}

// Check 3, and its reverse: other heads and keys that are not kept change nothing.
TEST(Interpreter, AKeyMattersExactlyWhereItIsKept) {
  TestProblem problem(longnet(), square(23, 3));
  const PairEvaluator evaluator(problem.pattern, problem.shape, {});
  const Outcome before = problem.run();
  problem.k.at(0, 3, 1, 0) += 1;
  const Outcome after = problem.run();
  for (std::int64_t h = 0; h < 3; ++h) {
    for (std::int64_t q = 0; q < 23; ++q) {
      // A row that keeps one key only gives that key's value, whatever the score.
      int keys = 0;
      for (std::int64_t k = 0; k < 23; ++k) keys += evaluator.multiplicity(0, h, q, k) > 0;
      const bool kept = h == 1 && evaluator.multiplicity(0, h, q, 3) > 0 && keys > 1;
      EXPECT_EQ(before.o.at(0, q, h, 0) != after.o.at(0, q, h, 0), kept) << h << " " << q;
    }
  }
}

// Check 5.
TEST(Interpreter, AnLseOfZeroIsAnOrdinaryValue) {
  TestProblem problem(pattern_of({of(SetKind::sink, {1})}), square(2, 1, 1));
  problem.q.data = {0, 0};
  const Outcome out = problem.run();
  EXPECT_EQ(out.lse.data[0], 0.0);
  EXPECT_EQ(out.o.data[1], problem.v.data[0]);
}

// Check 7.
TEST(Interpreter, OddSizes) {
  for (const std::int64_t n : {1, 2, 3, 6, 13}) {
    for (const std::int64_t heads : {1, 3, 7}) {
      Shape shape = square(n, heads);
      for (const std::int64_t n_q : {std::int64_t{1}, n}) {
        shape.n_q = n_q;
        for (const Combine combine : kCombines) {
          for (const double value : TestProblem(longnet(combine), shape).run().o.data) EXPECT_FALSE(std::isnan(value));
        }
      }
    }
  }
}

TEST(Interpreter, RowsWithoutWeightAreZeroAndNeverNan) {
  TestProblem none(pattern_of({negate(of(SetKind::all))}), square(3));
  none.v.data.assign(none.v.data.size(), kInfinity);
  const Outcome empty = none.run();
  for (const double value : empty.o.data) EXPECT_EQ(value, 0.0);
  for (const double value : empty.lse.data) EXPECT_EQ(value, -kInfinity);

  TestProblem masked({}, square(3));
  masked.pattern.score = apply(Op::log, {constant_real(0)});
  for (const double value : masked.run().o.data) EXPECT_EQ(value, 0.0);
  for (const double value : masked.run().lse.data) EXPECT_EQ(value, -kInfinity);
}

TEST(Interpreter, PaddingMayBeNan) {
  TestProblem problem(pattern_of({of(SetKind::causal)}), square(4));
  for (std::int64_t d = 0; d < 4; ++d) problem.k.at(0, 3, 0, d) = problem.v.at(0, 3, 0, d) = std::nan("");
  const Outcome out = problem.run();
  EXPECT_FALSE(std::isnan(out.o.at(0, 2, 0, 0)));
  EXPECT_TRUE(std::isnan(out.o.at(0, 3, 0, 0)));
}

TEST(Interpreter, KeyHeadsAreShared) {
  Shape shape = square(5, 6);
  shape.kv_heads = 2;
  TestProblem problem({}, shape);
  const Outcome before = problem.run();
  problem.k.at(0, 0, 1, 0) += 1;
  const Outcome after = problem.run();
  for (std::int64_t h = 0; h < 6; ++h) {
    EXPECT_EQ(before.o.at(0, 1, h, 0) == after.o.at(0, 1, h, 0), h < 3);
  }
}

TEST(Interpreter, ScoresAndScale) {
  TestProblem problem({}, square(4, 2));
  problem.pattern.scale = constant_real(2);
  const ExprPtr s = variable(Variable::s);
  const ExprPtr distance = apply(Op::subtract, {variable(Variable::k), variable(Variable::q)});
  problem.pattern.score =
      apply(Op::add, {s, apply(Op::multiply, {apply(Op::alibi, {variable(Variable::h)}), distance})});
  const PairEvaluator evaluator(problem.pattern, problem.shape, {});
  EXPECT_DOUBLE_EQ(evaluator.score(0.5, 0, 0, 3, 1), 1 - 2.0 / 16);
  EXPECT_DOUBLE_EQ(evaluator.score(0.5, 0, 1, 3, 1), 1 - 2.0 / 256);
}

TEST(Interpreter, OffsetsByBatchEntry) {
  Shape shape = square(6);
  shape.batch = 2;
  shape.n_q = 1;
  shape.offset = {1, 4};
  TestProblem problem(pattern_of({of(SetKind::causal)}), shape);
  std::fill(problem.q.data.begin(), problem.q.data.end(), 0.0);
  const Outcome out = problem.run();
  EXPECT_DOUBLE_EQ(out.lse.data[0], std::log(2.0));
  EXPECT_DOUBLE_EQ(out.lse.data[1], std::log(5.0));
}

TEST(Interpreter, ChosenRowsEqualTheWhole) {
  const TestProblem problem(longnet(), square(23, 2));
  const Outcome whole = problem.run();
  const auto some = interpret_rows(problem.pattern, problem.shape, problem.q, problem.k, problem.v, {}, {4, 17});
  ASSERT_TRUE(some.ok());
  for (std::int64_t q = 0; q < 23; ++q) {
    EXPECT_EQ(some.value().o.at(0, q, 1, 2), q == 4 || q == 17 ? whole.o.at(0, q, 1, 2) : 0);
  }
}

TEST(Interpreter, DropoutDropsWeightsButNotTheLse) {
  TestProblem problem({}, square(64, 2));
  const Outcome plain = problem.run();
  problem.pattern.dropout = 0.25;
  problem.shape.dropout_seed = 11;
  std::fill(problem.v.data.begin(), problem.v.data.end(), 1.0);
  std::fill(problem.q.data.begin(), problem.q.data.end(), 0.0);
  const Outcome out = problem.run();
  double total = 0;
  for (std::int64_t q = 0; q < 64; ++q) {
    int kept = 0;
    for (std::int64_t k = 0; k < 64; ++k) kept += !dropped(11, dropout_threshold(0.25), 0, 1, q, k);
    EXPECT_NEAR(out.o.at(0, q, 1, 0), kept / 64.0 / 0.75, 1e-14);
    EXPECT_DOUBLE_EQ(out.lse.data[static_cast<std::size_t>(q)], std::log(64.0));
    total += out.o.at(0, q, 1, 0) / 64;
  }
  EXPECT_NEAR(total, 1, 0.05);
  EXPECT_NE(plain.o.data, out.o.data);
}

TEST(Interpreter, RefusesWhatDoesNotFit) {
  const auto message = [](const Pattern& p, const Shape& shape) {
    const Status status = check_shapes(p, shape, {});
    return status.ok() ? std::string() : status.error().message;
  };
  Pattern p = pattern_of({of(SetKind::neighborhood, {9, 2, 1, 0})});
  EXPECT_EQ(message(p, square(17)), "neighborhood: size times dilation is 18, more than 17 tokens");
  EXPECT_EQ(message(p, square(18)), "");
  p.branches[0].heads = {.kind = HeadSet::Kind::range, .lo = 2, .hi = 4};
  EXPECT_EQ(message(p, square(18, 3)), "a branch runs on heads 2..4, there are 3");
  p = pattern_of({make_input_set(SetKind::document, 0)});
  EXPECT_EQ(message(p, square(3)), "");
  Shape longer = square(3);
  longer.n_q = 5;
  EXPECT_NE(message(p, longer).find("query positions begin at -2"), std::string::npos);
  p.inputs = {{.name = "doc", .axes = {{Axis::Kind::tokens, 0}}, .range = {}}};
  EXPECT_EQ(message(p, square(3)), "0 inputs given, the pattern declares 1");
  p = {};
  p.grid = {2, 3};
  EXPECT_EQ(message(p, square(5)), "grid 2, 3 has 6 tokens, the keys have 5");
  Shape uneven = square(5, 3);
  uneven.kv_heads = 2;
  EXPECT_EQ(message({}, uneven), "3 query heads are not a multiple of 2 key/value heads");
}

TEST(Interpreter, BoundsOfSection10) {
  Pattern p = longnet(Combine::sum);
  const Bounds sum = error_bounds(p, DType::f32, 1024, 2, 5);
  EXPECT_DOUBLE_EQ(sum.o, 6 * (2e-6 * 11 + 1e-6));
  EXPECT_DOUBLE_EQ(sum.lse, 4e-6 * 6);
  EXPECT_DOUBLE_EQ(sum.gradient, 10 * (2e-6 * 11 + 1e-6)) << "of the gradient's own size, whatever V and the branches";
  p.combine = Combine::joint;
  p.dropout = 0.5;
  EXPECT_DOUBLE_EQ(error_bounds(p, DType::f16, 1024, 2, 8).o, 4 * (2e-3 + 16e-7));
  EXPECT_DOUBLE_EQ(error_bounds(p, DType::bf16, 1024, 2, 8).lse, 2e-2);
}

}  // namespace
}  // namespace weft::ir
