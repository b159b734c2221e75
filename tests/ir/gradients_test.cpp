#include "compiler/base/ops.h"
#include "tests/ir/gradient_check.h"
#include "tests/support/random_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

/// Gradients of the pattern interpreter against differences of its forward, which share no step with them.
namespace weft::ir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const ExprPtr s = variable(Variable::s), h = variable(Variable::h), q = variable(Variable::q),
              k = variable(Variable::k);

ExprPtr number(double x) { return constant_real(x); }
SetPtr of(SetKind kind, std::vector<std::int64_t> args = {}) { return make_set(kind, std::move(args)); }

/// Two branches that share keys, heads that share keys, and fewer queries than keys.
GradientProblem small(Combine combine = Combine::joint, double dropout = 0) {
  Pattern p = pattern_of({of(SetKind::causal), of(SetKind::window, {2, 1})}, combine);
  p.dropout = dropout;
  Shape shape{.batch = 2, .n_q = 7, .n_k = 9, .heads = 4, .kv_heads = 2, .d = 3, .d_v = 2};
  shape.dropout_seed = 5;
  return GradientProblem({std::move(p), shape});
}

GradientProblem with_score(ExprPtr score) {
  GradientProblem problem = small();
  problem.of.pattern.score = std::move(score);
  return problem;
}

/// The same with an input of heads and distances that the score reads.
GradientProblem with_bias(const ExprPtr& index) {
  GradientProblem problem = small();
  problem.of.pattern.inputs = {
      {.name = "bias", .type = InputType::f32, .axes = {{Axis::Kind::heads, 0}, {Axis::Kind::extent, 5}}, .range = {}}};
  problem.of.inputs = {normal_tensor({4, 5}, 9)};
  problem.of.pattern.score = apply(Op::add, {s, input_at(0, Type::real, {h, index})});
  return problem;
}

Gradients gradients_of(const GradientProblem& problem) {
  auto out = problem.gradients();
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().message);
  return std::move(out).value();
}

Checked check(const GradientProblem& problem, std::uint64_t seed = 1) {
  return check_gradients(problem, gradients_of(problem), seed);
}

constexpr Combine kCombines[] = {Combine::joint, Combine::joint_detached, Combine::unite, Combine::sum, Combine::mean};

TEST(Gradients, OfEveryCombineModeWithAndWithoutDropout) {
  for (const Combine combine : kCombines) {
    for (const double dropout : {0.0, 0.4}) {
      const Checked got = check(small(combine, dropout));
      EXPECT_EQ(got.wrong, "") << to_string(combine) << " " << dropout;
      EXPECT_EQ(got.lost, 0);
    }
  }
}

TEST(Gradients, OfEveryOperation) {
  const ExprPtr x = apply(Op::add, {apply(Op::multiply, {s, number(0.3)}), number(5.2)});
  const ExprPtr y = apply(Op::add, {number(2.4), apply(Op::multiply, {apply(Op::multiply, {s, s}), number(0.1)})});
  int found = 0;
  for (const OpFacts& op : all_ops()) {
    if (op.signature != Signature::numbers && op.signature != Signature::reals) continue;
    ++found;
    const ExprPtr e = op.arity == 1 ? apply(op.op, {x}) : apply(op.op, {x, y});
    const Checked got = check(with_score(apply(Op::add, {e, s})));
    EXPECT_EQ(got.wrong, "") << op.word;
    EXPECT_GT(got.asked, 6) << op.word;
  }
  EXPECT_GE(found, 14);
  const ExprPtr below = apply(Op::less, {s, number(0.2)});
  EXPECT_EQ(check(with_score(apply(Op::select, {below, x, apply(Op::tanh, {y})}))).wrong, "");
}

TEST(Gradients, OfInputsThatAScoreAndAScaleRead) {
  const ExprPtr distance = apply(Op::modulo, {apply(Op::subtract, {q, k}), constant(5)});
  GradientProblem problem = with_bias(distance);
  EXPECT_EQ(check(problem).wrong, "");
  problem.of.pattern.scale = apply(Op::exp, {input_at(0, Type::real, {h, constant(2)})});
  EXPECT_EQ(check(problem).wrong, "");
  const ExprPtr read = input_at(0, Type::real, {h, distance});
  problem.of.pattern.score = apply(Op::multiply, {apply(Op::add, {s, read}), apply(Op::tanh, {read})});
  EXPECT_EQ(check(problem).wrong, "") << "an element read twice counts twice";
  problem.of.pattern.score = apply(Op::add, {s, input_at(0, Type::real, {h, apply(Op::subtract, {k, constant(2)})})});
  EXPECT_EQ(check(problem).wrong, "") << "an index beyond an end reads the nearest element";
}

/// A problem with a sink that an input of heads gives, and rows that keep nothing.
GradientProblem with_sink(Combine combine = Combine::joint, double dropout = 0) {
  GradientProblem problem = small(combine, dropout);
  Pattern& p = problem.of.pattern;
  p.branches = {{make_set(SetKind::window, {2, -1}), {}, {}}, {make_set(SetKind::window, {4, -2}), {}, {}}};
  problem.of.shape.offset = {0, 0};
  p.inputs = {{.name = "sinks", .type = InputType::f32, .axes = {{Axis::Kind::heads, 0}}, .range = {}}};
  problem.of.inputs = {normal_tensor({4}, 9)};
  p.sink_logit = apply(Op::multiply, {number(1.5), input_at(0, Type::real, {h})});
  return problem;
}

TEST(Gradients, OfSinks) {
  for (const Combine combine : {Combine::joint, Combine::joint_detached, Combine::unite}) {
    for (const double dropout : {0.0, 0.4}) {
      const GradientProblem problem = with_sink(combine, dropout);
      const Gradients found = gradients_of(problem);
      EXPECT_EQ(check_gradients(problem, found, 1).wrong, "") << to_string(combine) << " " << dropout;
      for (const double x : found.inputs[0].data) EXPECT_NE(x, 0);
      GradientProblem other = problem;
      other.of.pattern.sink_logit = number(0);
      EXPECT_NE(check_gradients(problem, gradients_of(other), 1).wrong, "") << "another sink";
    }
  }
}

/// Row 0 keeps no key: O is 0 and the LSE is the sink, whatever dO holds.
TEST(Gradients, OfASinkAloneAreThoseOfItsLse) {
  GradientProblem problem = with_sink();
  for (std::int64_t c = 0; c < 2; ++c) problem.d_o.at(0, 0, 1, c) = std::nan("");
  const Gradients before = gradients_of(problem);
  EXPECT_TRUE(std::isfinite(before.inputs[0].data[1]));
  problem.d_lse.data[static_cast<std::size_t>(1 * problem.of.shape.n_q)] += 1;
  EXPECT_NEAR(gradients_of(problem).inputs[0].data[1] - before.inputs[0].data[1], 1.5, 1e-12);
}

TEST(Gradients, OfSigmoids) {
  for (const Combine combine : {Combine::joint, Combine::unite}) {
    for (const double dropout : {0.0, 0.4}) {
      GradientProblem problem = small(combine, dropout);
      problem.of.pattern.score = apply(Op::multiply, {number(0.7), s});
      problem.of.pattern.sigmoid = apply(Op::subtract, {s, number(0.4)});
      EXPECT_EQ(check(problem).wrong, "") << to_string(combine) << " " << dropout;
      GradientProblem other = problem;
      other.of.pattern.sigmoid = s;
      EXPECT_NE(check_gradients(problem, gradients_of(other), 1).wrong, "") << "another bias";
    }
  }
  GradientProblem problem = with_bias(apply(Op::modulo, {apply(Op::subtract, {q, k}), constant(5)}));
  problem.of.pattern.sigmoid = apply(Op::subtract, {s, input_at(0, Type::real, {h, constant(1)})});
  EXPECT_EQ(check(problem).wrong, "") << "an input that the score reads, and the sigmoid as well";
}

/// Gradients that are not those of the problem must be seen: else nothing above says anything.
TEST(Gradients, TheComparisonSeesWhatIsWrong) {
  const auto seen = [](const GradientProblem& problem, const GradientProblem& other) {
    return !check_gradients(problem, gradients_of(other), 1).wrong.empty();
  };
  const GradientProblem joint = small();
  GradientProblem other = small(Combine::unite);
  EXPECT_TRUE(seen(joint, other)) << "multiplicity left out";
  EXPECT_TRUE(seen(joint, small(Combine::joint_detached))) << "the mix as a constant";
  other = small();
  std::fill(other.d_lse.data.begin(), other.d_lse.data.end(), 0.0);
  EXPECT_TRUE(seen(joint, other)) << "dLSE left out";
  EXPECT_TRUE(seen(small(Combine::mean), small(Combine::sum))) << "the mean's factor left out";
  GradientProblem dropout = small(Combine::joint, 0.4);
  other = dropout;
  other.of.shape.dropout_seed = 6;
  EXPECT_TRUE(seen(dropout, other)) << "other draws";
  other.of = joint.of;
  EXPECT_TRUE(seen(dropout, other)) << "no draws";
  Gradients wrong = gradients_of(joint);
  for (auto& x : wrong.dk.data) x /= std::sqrt(3.0);
  EXPECT_NE(check_gradients(joint, wrong, 1).wrong, "") << "scale twice";
  const GradientProblem bias = with_bias(constant(1));
  wrong = gradients_of(bias);
  wrong.inputs[0].data[1] *= 1.0001;
  EXPECT_NE(check_gradients(bias, wrong, 1).wrong, "") << "an input's";
}

TEST(Gradients, TiesFollowTheFirstAndAbsIsLevelAtZero) {
  const ExprPtr twice = apply(Op::multiply, {number(2), s});
  const auto dq = [](const ExprPtr& score) {
    GradientProblem problem{TestProblem({}, square(2, 1, 1))};
    problem.of.k.data = {1, -1};
    problem.of.q.data = {0, 0};
    problem.of.pattern.scale = number(1);
    problem.of.pattern.score = score;
    return gradients_of(problem).dq.data[0];
  };
  const double once = dq(s);
  EXPECT_NE(once, 0);
  for (const Op op : {Op::minimum, Op::maximum}) {
    EXPECT_DOUBLE_EQ(dq(apply(op, {twice, s})), 2 * once);
    EXPECT_DOUBLE_EQ(dq(apply(op, {s, twice})), once);
  }
  EXPECT_EQ(dq(apply(Op::absolute, {s})), 0);
}

bool all_finite(const Tensor& t) {
  return std::all_of(t.data.begin(), t.data.end(), [](double x) { return std::isfinite(x); });
}

TEST(Gradients, PlacesThatNoKeptPairReadsMayHoldAnything) {
  for (const Combine combine : kCombines) {
    GradientProblem problem{
        TestProblem(pattern_of({of(SetKind::window, {1, 0}), of(SetKind::sink, {1})}, combine), square(6))};
    problem.of.pattern.branches[0].set = problem.of.pattern.branches[1].set =
        make_where(apply(Op::logical_and, {apply(Op::less, {k, constant(4)}), apply(Op::less, {q, constant(5)})}));
    const Gradients before = gradients_of(problem);
    for (std::int64_t i = 0; i < 4; ++i) {
      for (const std::int64_t key : {4, 5})
        problem.of.k.at(0, key, 0, i) = problem.of.v.at(0, key, 0, i) = std::nan("");
      problem.of.q.at(0, 5, 0, i) = problem.d_o.at(0, 5, 0, i) = kInfinity;
    }
    for (std::size_t i = 5; i < problem.d_lse.data.size(); i += 6) problem.d_lse.data[i] = std::nan("");
    const Gradients after = gradients_of(problem);
    EXPECT_EQ(before.dq.data, after.dq.data);
    EXPECT_EQ(before.dk.data, after.dk.data);
    EXPECT_EQ(before.dv.data, after.dv.data);
    EXPECT_TRUE(all_finite(after.dq) && all_finite(after.dk) && all_finite(after.dv));
    EXPECT_NE(after.dk.at(0, 3, 0, 0), 0);
    EXPECT_EQ(after.dk.at(0, 4, 0, 0), 0);
    EXPECT_EQ(after.dq.at(0, 5, 0, 0), 0);
  }
}

/// A score of -inf masks like a set: V of such a pair may be NaN, and slopes there may be infinite.
TEST(Gradients, ScoresOfMinusInfinityGiveNone) {
  const ExprPtr late = apply(Op::less, {constant(3), k});
  GradientProblem problem = with_score(apply(Op::select, {late, apply(Op::log, {number(0)}), s}));
  for (std::int64_t key = 4; key < 9; ++key) problem.of.v.at(0, key, 0, 0) = std::nan("");
  const Gradients some = gradients_of(problem);
  EXPECT_TRUE(all_finite(some.dq) && all_finite(some.dk) && all_finite(some.dv));
  EXPECT_NE(some.dv.at(0, 2, 0, 0), 0);
  problem.of.pattern.score = apply(Op::log, {apply(Op::multiply, {s, number(0)})});
  const Gradients none = gradients_of(problem);
  for (const Tensor* t : {&none.dq, &none.dk, &none.dv}) {
    EXPECT_TRUE(std::all_of(t->data.begin(), t->data.end(), [](double x) { return x == 0; }));
  }
}

TEST(Gradients, ConstantsOfInfiniteSlopePassNothingOn) {
  const ExprPtr distance = apply(Op::sqrt, {apply(Op::absolute, {apply(Op::subtract, {q, k})})});
  EXPECT_EQ(check(with_score(apply(Op::subtract, {s, distance}))).wrong, "");
  const ExprPtr far = apply(Op::sigmoid, {apply(Op::subtract, {s, number(800)})});
  EXPECT_EQ(check(with_score(apply(Op::add, {s, far}))).wrong, "");
}

TEST(Gradients, RefusesWhatDoesNotFit) {
  GradientProblem problem = small();
  const auto message = [&] { return problem.gradients().error().message; };
  problem.d_lse = Tensor({2, 2, 4, 7});
  EXPECT_EQ(message(), "the LSE of branches has no gradient but with combine sum and combine mean");
  problem.d_lse = Tensor({2, 7, 4});
  EXPECT_EQ(message(), "dLSE has shape [2, 7, 4], expected [2, 4, 7]");
  problem.of.pattern.sigmoid = s;
  EXPECT_EQ(interpret_gradients(problem.of.pattern, problem.of.shape, problem.of.q, problem.of.k, problem.of.v, {},
                                problem.d_o, &problem.d_lse)
                .error()
                .message,
            "weights sigmoid has no LSE, and so no gradient of one");
  problem.of.pattern.sigmoid = nullptr;
  problem.d_o = Tensor({2, 7, 4, 3});
  EXPECT_EQ(message(), "dO has shape [2, 7, 4, 3], expected [2, 7, 4, 2]");
}

TEST(Gradients, OfRandomPrograms) {
  constexpr std::uint64_t kPrograms = 1200;
  std::map<std::string, int> seen;
  int asked = 0, lost = 0;
  double worst = 0;
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    test::Program program = test::random_program(seed, {.most_tokens = 12, .most_heads = 4, .nesting = 2});
    auto pattern = test::lowered(program);
    if (!pattern.ok() || program.shape.n_k > 12 || program.shape.n_q > 12) continue;
    pattern->dim.reset();
    pattern->dim_v.reset();
    program.shape.d = 1 + static_cast<std::int64_t>(seed % 4);
    program.shape.d_v = 1 + static_cast<std::int64_t>(seed / 4 % 4);
    const auto inputs = test::draw_inputs(*pattern, program.shape, seed);
    if (!check_shapes(*pattern, program.shape, inputs).ok()) continue;
    TestProblem problem(*pattern, program.shape);
    problem.inputs = inputs;
    const GradientProblem p(std::move(problem), seed);
    const Checked got = check(p, seed);
    EXPECT_EQ(got.wrong, "") << "seed " << seed << "\n" << test::to_file(program);
    asked += got.asked;
    lost += got.lost;
    worst = std::max(worst, got.worst);
    ++seen["programs"];
    ++seen[to_string(pattern->combine)];
    seen["dropout"] += pattern->dropout > 0;
    seen["score"] += pattern->score != nullptr;
    seen["scale"] += pattern->scale != nullptr;
    seen["sink"] += pattern->sink_logit != nullptr;
    seen["sigmoid"] += pattern->sigmoid != nullptr;
    seen["shared heads"] += program.shape.heads != program.shape.kv_heads;
    seen["other n_q"] += program.shape.n_q != program.shape.n_k;
    seen["offset"] += !program.shape.offset.empty();
    for (const char* word : {"top(", "random(", "document(", "bias", "neighborhood("}) {
      seen[word] += program.text.find(word) != std::string::npos;
    }
  }
  for (const auto& [what, times] : seen) EXPECT_GT(times, 10) << what;
  EXPECT_GT(asked, 10000);
  EXPECT_LT(lost, asked / 20);
  RecordProperty("programs", seen["programs"]);
  RecordProperty("asked", asked);
  RecordProperty("lost", lost);
  RecordProperty("worst", std::to_string(worst));
}

}  // namespace
}  // namespace weft::ir
