#include "compiler/ir/derivative.h"
#include "tests/ir/problem.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

/// Derivatives of scores against differences of their values in the pattern interpreter.
namespace weft::ir {
namespace {

const ExprPtr s = variable(Variable::s);

ExprPtr number(double x) { return constant_real(x); }

class Scores {
 public:
  explicit Scores(ExprPtr score) : problem_({}, square(4, 2)) {
    problem_.pattern.scale = number(1);
    problem_.pattern.score = std::move(score);
  }
  double at(double x) const { return PairEvaluator(problem_.pattern, problem_.shape, {}).score(x, 0, 1, 3, 1); }

 private:
  TestProblem problem_;
};

/// From both sides; NaN where they differ, at kinks and where the value does not exist.
double difference(const Scores& f, double x) {
  const double step = 1e-5, here = f.at(x);
  const double right = (f.at(x + step) - here) / step, left = (here - f.at(x - step)) / step;
  const bool smooth = std::fabs(right - left) <= 1e-3 * std::max(1.0, std::fabs(right));
  return smooth ? (right + left) / 2 : std::nan("");
}

/// How often it could be asked. Where a root is 0 the derivative of what it is multiplied by does not help: such places
/// are counted by `lost`.
int agree(const ExprPtr& score, const std::vector<double>& places, int* lost = nullptr) {
  const Scores f(score), slope(derivative(score, s));
  int asked = 0;
  for (const double x : places) {
    const double expected = difference(f, x);
    if (!(std::fabs(expected) < 1e4)) continue;
    if (lost != nullptr && !std::isfinite(slope.at(x))) {
      ++*lost;
      continue;
    }
    EXPECT_NEAR(slope.at(x), expected, 1e-4 * std::max(1.0, std::fabs(expected)))
        << print(*score) << " at " << x << ": " << print(*derivative(score, s));
    ++asked;
  }
  return asked;
}

bool is_of_reals(const OpFacts& op) { return op.signature == Signature::numbers || op.signature == Signature::reals; }

std::vector<double> places() {
  std::vector<double> out;
  for (double x = -3.07; x < 3; x += 0.37) out.push_back(x);
  return out;
}

TEST(Derivative, OfEveryOperation) {
  const ExprPtr x = apply(Op::add, {apply(Op::multiply, {s, number(1.3)}), number(0.2)});
  const ExprPtr y = apply(Op::subtract, {number(2.1), apply(Op::multiply, {s, s})});
  int found = 0;
  for (const OpFacts& op : all_ops()) {
    if (!is_of_reals(op)) continue;
    ++found;
    if (op.arity == 1) {
      EXPECT_GT(agree(apply(op.op, {x}), places()) + agree(apply(op.op, {y}), places()), 8) << op.word;
    } else {
      EXPECT_GT(agree(apply(op.op, {x, y}), places()), 8) << op.word;
      EXPECT_GT(agree(apply(op.op, {x, number(1.7)}), places()), 8) << op.word;
      EXPECT_GT(agree(apply(op.op, {number(1.7), y}), places()), 8) << op.word;
    }
  }
  EXPECT_GE(found, 14);
  const ExprPtr below = apply(Op::less, {s, number(0.5)});
  EXPECT_GT(agree(apply(Op::select, {below, x, apply(Op::tanh, {y})}), places()), 8);
}

class RandomScore {
 public:
  explicit RandomScore(std::uint64_t seed) : random_(seed) {}

  ExprPtr make(int nesting) {
    if (nesting == 0 || random_.one_in(8)) return leaf();
    if (random_.one_in(10)) {
      const ExprPtr condition = apply(Op::less, {make(nesting - 1), make(nesting - 1)});
      return apply(Op::select, {condition, make(nesting - 1), make(nesting - 1)});
    }
    std::vector<Op> ops;
    for (const OpFacts& op : all_ops()) {
      if (is_of_reals(op)) ops.push_back(op.op);
    }
    const Op op = random_.pick(ops);
    ++used[op];
    std::vector<ExprPtr> args;
    for (std::size_t i = 0; i < facts(op).arity; ++i) args.push_back(make(nesting - 1));
    return apply(op, std::move(args));
  }

  std::map<Op, int> used = {};

 private:
  ExprPtr leaf() {
    if (random_.one_in(2)) return s;
    if (random_.one_in(3)) return apply(Op::alibi, {variable(Variable::h)});
    if (random_.one_in(2)) return apply(Op::to_real, {variable(Variable::q)});
    return number(random_.normal());
  }
  test::RandomNumbers random_;
};

TEST(Derivative, OfRandomScores) {
  constexpr std::uint64_t kScores = 400;
  int asked = 0, lost = 0;
  std::map<Op, int> used;
  for (std::uint64_t seed = 0; seed < kScores; ++seed) {
    RandomScore random(seed);
    ExprPtr score = random.make(4);
    if (score->type != Type::real || !reads(*score, Variable::s)) continue;
    asked += agree(score, {-1.71, -0.33, 0.27, 0.81, 2.9}, &lost);
    for (const auto& [op, times] : random.used) used[op] += times;
  }
  EXPECT_GT(asked, 600);
  EXPECT_LT(lost, asked / 20);
  for (const OpFacts& op : all_ops()) EXPECT_TRUE(!is_of_reals(op) || used[op.op] > 20) << op.word;
}

TEST(Derivative, TiesFollowTheFirstAndAbsIsLevelAtZero) {
  const ExprPtr twice = apply(Op::multiply, {number(2), s});
  const auto slope = [](const ExprPtr& e) { return Scores(derivative(e, s)).at(0); };
  EXPECT_EQ(slope(apply(Op::minimum, {twice, s})), 2);
  EXPECT_EQ(slope(apply(Op::maximum, {twice, s})), 2);
  EXPECT_EQ(slope(apply(Op::minimum, {s, twice})), 1);
  EXPECT_EQ(slope(apply(Op::absolute, {s})), 0);
}

TEST(Derivative, IsSimpleWhereTheScoreIs) {
  EXPECT_EQ(print(*derivative(s, s)), "1.0");
  EXPECT_EQ(print(*derivative(number(3), s)), "0.0");
  const ExprPtr bias = apply(Op::alibi, {variable(Variable::h)});
  EXPECT_EQ(print(*derivative(apply(Op::add, {s, bias}), s)), "1.0");
  EXPECT_EQ(print(*derivative(apply(Op::multiply, {s, bias}), s)), "alibi(h)");
  const ExprPtr cap = number(50), capped = apply(Op::tanh, {apply(Op::divide, {s, cap})});
  EXPECT_EQ(print(*derivative(apply(Op::multiply, {cap, capped}), s)),
            "50.0 * ((1.0 - tanh(s / 50.0) * tanh(s / 50.0)) * 0.02)");
}

TEST(Derivative, OfAnElementOfAnInput) {
  const ExprPtr h = variable(Variable::h), q = variable(Variable::q);
  const ExprPtr w = input_at(0, Type::real, {h}), same = input_at(0, Type::real, {h}),
                other = input_at(0, Type::real, {q});
  const ExprPtr score = apply(Op::add, {apply(Op::multiply, {w, s}), apply(Op::multiply, {other, same})});
  EXPECT_EQ(print(*derivative(score, w), {"w"}), "s + w[q]");
  EXPECT_EQ(print(*derivative(score, other), {"w"}), "w[h]");
  EXPECT_EQ(print(*derivative(score, s), {"w"}), "w[h]");
  const auto elements = real_elements(score);
  ASSERT_EQ(elements.size(), 2U);
  EXPECT_EQ(print(*elements[0], {"w"}), "w[h]");
  EXPECT_EQ(print(*elements[1], {"w"}), "w[q]");
}

}  // namespace
}  // namespace weft::ir
