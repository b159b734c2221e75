#include "tests/codegen/expression_kernel.h"

#include <algorithm>
#include <limits>
#include <random>

namespace weft::testing {
namespace {

using ir::apply;
using ir::constant;
using ir::constant_real;
using ir::ExprPtr;
using ir::Op;
using ir::Type;
using ir::Variable;

const ExprPtr kQ = ir::variable(Variable::q);
const ExprPtr kK = ir::variable(Variable::k);
const ExprPtr kS = ir::variable(Variable::s);

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct RealInputs {
  std::vector<ir::Input> inputs = {input("x", ir::InputType::f32, {{ir::Axis::Kind::extent, kMostLanes}}),
                                   input("y", ir::InputType::f32, {{ir::Axis::Kind::extent, kMostLanes}})};
  ExprPtr x = ir::input_at(0, Type::real, {kQ});
  ExprPtr y = ir::input_at(1, Type::real, {kQ});
};

const std::vector<float>& special_reals() {
  static const std::vector<float> values = {0.0F,
                                            -0.0F,
                                            1.0F,
                                            -1.0F,
                                            0.5F,
                                            -0.5F,
                                            1e-3F,
                                            -1e-3F,
                                            1e-10F,
                                            1e-20F,
                                            -1e-30F,
                                            1e-38F,
                                            1e-40F,
                                            -1e-45F,
                                            3.0F,
                                            -3.0F,
                                            8.9F,
                                            -9.01F,
                                            9.03F,
                                            20.0F,
                                            -20.0F,
                                            87.0F,
                                            88.7F,
                                            88.8F,
                                            -87.3F,
                                            -87.4F,
                                            -100.0F,
                                            -103.9F,
                                            -104.1F,
                                            200.0F,
                                            -200.0F,
                                            8388607.5F,
                                            16777216.0F,
                                            1e20F,
                                            3.4e38F,
                                            -3.4e38F,
                                            1.0000001F,
                                            0.99999994F,
                                            0.70710677F,
                                            0.7071068F,
                                            1.4142135F,
                                            2.0F,
                                            0.125F,
                                            static_cast<float>(kInfinity),
                                            static_cast<float>(-kInfinity),
                                            std::numeric_limits<float>::quiet_NaN()};
  return values;
}

/// Distance in units of the last place of `want` as f32. Beyond the largest f32 there is infinity.
double ulps(double got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : kInfinity;
  const auto nearest = static_cast<float>(want);
  if (std::isinf(nearest) || std::isinf(got)) return got == static_cast<double>(nearest) ? 0 : kInfinity;
  const double magnitude = std::max(std::abs(want), std::ldexp(1.0, -126));
  return std::abs(got - want) / std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

struct RealCase {
  ExprPtr e;
  double most_ulps;
};

class Reals : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    target_ = find_target(GetParam()).value();
    if (!host_can_execute(target_)) GTEST_SKIP() << "this machine cannot execute " << target_.name;
  }

  void expect_near(const std::vector<RealCase>& cases, const std::vector<float>& xs, const std::vector<float>& ys) {
    std::vector<ExprPtr> expressions;
    for (const auto& c : cases) expressions.push_back(c.e);
    const ExpressionKernel kernel(expressions, in_.inputs, target_);
    std::vector<double> worst(cases.size(), 0);
    for (std::size_t first = 0; first < xs.size(); first += kernel.lanes()) {
      Place place;
      std::vector<ir::Tensor> tensors(2, ir::Tensor({kMostLanes}));
      float x[kMostLanes] = {}, y[kMostLanes] = {};
      for (std::size_t lane = 0; lane < kernel.lanes(); ++lane) {
        place.q[lane] = static_cast<std::int64_t>(lane);
        x[lane] = place.s[lane] = xs[(first + lane) % xs.size()];
        y[lane] = ys[(first + lane) % ys.size()];
        tensors[0].data[lane] = static_cast<double>(x[lane]);
        tensors[1].data[lane] = static_cast<double>(y[lane]);
      }
      weft_args args{};
      args.inputs[0] = {x, {1}, {kMostLanes}};
      args.inputs[1] = {y, {1}, {kMostLanes}};
      const auto got = kernel.run(place, args);
      const Reference want(in_.inputs, tensors, place);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        for (std::size_t lane = 0; lane < kernel.lanes(); ++lane) {
          const bool is_real = cases[i].e->type == Type::real;
          const double distance =
              is_real ? ulps(got[i].real(lane), want.real(*cases[i].e, lane))
                      : std::abs(static_cast<double>(got[i].integer(lane) - want.integer(*cases[i].e, lane)));
          worst[i] = std::max(worst[i], distance);
          ASSERT_LE(distance, cases[i].most_ulps) << ir::print(*cases[i].e, {"x", "y"}) << " for x " << x[lane]
                                                  << ", y " << y[lane] << ": " << got[i].real(lane);
        }
      }
    }
    for (std::size_t i = 0; i < cases.size(); ++i) {
      RecordProperty(ir::print(*cases[i].e, {"x", "y"}), std::to_string(worst[i]));
    }
  }

  Target target_;
  RealInputs in_;
};

/// Reals of random exponents; the last `spread` of them around 1.
std::vector<float> random_reals(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> out = special_reals();
  while (out.size() < count) {
    const auto bits = static_cast<std::uint32_t>(random());
    float any = 0;
    std::memcpy(&any, &bits, 4);
    out.push_back(random() % 2 == 0 ? any : normal(random));
  }
  return out;
}

TEST_P(Reals, Functions) {
  const auto of = [&](Op op) { return apply(op, {in_.x}); };
  const std::vector<RealCase> cases = {{of(Op::exp), 1.5},         {of(Op::log), 2},      {of(Op::sqrt), 0.5},
                                       {of(Op::tanh), 6},          {of(Op::absolute), 0}, {of(Op::negate), 0},
                                       {apply(Op::exp, {kS}), 1.5}};
  expect_near(cases, random_reals(200000, 1), {0.0F});
  // Below e^-88 the sum 1 + e^-x is infinite.
  std::vector<float> above;
  for (float x : random_reals(100000, 2)) above.push_back(x < -87 ? -x : x);
  expect_near({{of(Op::sigmoid), 3}}, above, {0.0F});
}

TEST_P(Reals, TanhOfSmallNumbersDoesNotCancel) {
  std::vector<float> xs;
  for (float x = 1e-45F; x < 1e-3F; x = x * 1.37F + 1e-45F) xs.insert(xs.end(), {x, -x});
  expect_near({{apply(Op::tanh, {in_.x}), 2}}, xs, {0.0F});
}

TEST_P(Reals, ArithmeticAndComparisons) {
  std::vector<RealCase> cases;
  for (const Op op : {Op::add, Op::subtract, Op::multiply, Op::divide})
    cases.push_back({apply(op, {in_.x, in_.y}), 0.5});
  for (const Op op : {Op::minimum, Op::maximum, Op::less, Op::less_equal, Op::equal, Op::not_equal})
    cases.push_back({apply(op, {in_.x, in_.y}), 0});
  for (const double c : {2.0, 30.0, -0.3, 1e-38, 1e38, 0.0}) {
    // A constant is rounded to f32 and its reciprocal once more.
    cases.push_back({apply(Op::divide, {in_.x, constant_real(static_cast<double>(static_cast<float>(c)))}), 1.5});
  }
  cases.push_back({apply(Op::select, {apply(Op::less, {in_.x, in_.y}), in_.y, in_.x}), 0});
  std::vector<float> xs, ys;
  for (float x : special_reals()) {
    for (float y : special_reals()) {
      xs.push_back(x);
      ys.push_back(y);
    }
  }
  const auto more = random_reals(20000, 3), others = random_reals(20000, 4);
  xs.insert(xs.end(), more.begin(), more.end());
  ys.insert(ys.end(), others.begin(), others.end());
  expect_near(cases, xs, ys);
}

TEST_P(Reals, ModuloOfNumbersThatF32Holds) {
  // Quotients and products are exact here, so that the floor cannot fall on another integer.
  std::vector<float> xs, ys;
  for (int x = -300; x <= 300; ++x) {
    for (float y : {1.0F, 2.0F, 0.25F, -4.0F, 8.0F}) {
      xs.push_back(static_cast<float>(x) * 0.375F);
      ys.push_back(y);
    }
  }
  for (float x : {8388609.0F, 1e20F, static_cast<float>(kInfinity)}) {
    xs.push_back(x);
    ys.push_back(1.0F);
  }
  expect_near({{apply(Op::modulo, {in_.x, in_.y}), 0}}, xs, ys);
}

TEST_P(Reals, IntegersToReals) {
  const std::vector<ExprPtr> expressions = {apply(Op::to_real, {kQ}), apply(Op::to_real, {kK}),
                                            apply(Op::to_real, {apply(Op::subtract, {kQ, kK})})};
  const ExpressionKernel kernel(expressions, {}, target_);
  std::mt19937_64 random(5);
  for (int turn = 0; turn < 5000; ++turn) {
    Place place;
    place.k = static_cast<std::int64_t>(random()) >> (random() % 64);
    for (auto& q : place.q) q = static_cast<std::int64_t>(random()) >> (random() % 64);
    const auto got = kernel.run(place);
    const Reference want({}, {}, place);
    for (std::size_t i = 0; i < expressions.size(); ++i) {
      for (std::size_t lane = 0; lane < kernel.lanes(); ++lane) {
        ASSERT_LE(ulps(got[i].real(lane), want.real(*expressions[i], lane)), 0.5001) << place.q[lane];
      }
    }
  }
}

TEST_P(Reals, AlibiForEveryHeadCount) {
  const ExprPtr of_head = apply(Op::alibi, {ir::variable(Variable::h)});
  const ExprPtr of_row = apply(Op::alibi, {kQ});
  const ExpressionKernel kernel({of_head, of_row}, {}, target_);
  for (std::int64_t heads = 1; heads <= 70; ++heads) {
    for (std::int64_t h = 0; h < heads; ++h) {
      Place place;
      place.h = h;
      place.heads = heads;
      for (int lane = 0; lane < kMostLanes; ++lane) place.q[lane] = (h + lane) % heads;
      const auto got = kernel.run(place);
      const Reference want({}, {}, place);
      for (std::size_t lane = 0; lane < kernel.lanes(); ++lane) {
        ASSERT_LE(ulps(got[0].real(lane), want.real(*of_head, lane)), 0.5001) << h << " of " << heads;
        ASSERT_LE(ulps(got[1].real(lane), want.real(*of_row, lane)), 0.5001) << place.q[lane] << " of " << heads;
      }
    }
  }
}

/// Memory that ends where a page without access begins, so that a read behind it faults.
INSTANTIATE_TEST_SUITE_P(Cpu, Reals, ::testing::Values("cpu:x86-64", "cpu:x86-64-v3", "cpu"),
                         [](const auto& which) { return "target" + std::to_string(which.index); });

}  // namespace
}  // namespace weft::testing
