#include "codegen/args.h"
#include "codegen/cuda/expression.h"
#include "codegen/cuda/headers.h"
#include "codegen/cuda/intervals.h"
#include "compiler/ir/pattern_interpreter.h"
#include "runtime/emulate/program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <random>

/// Expressions as CUDA text, run on the emulator, against the pattern interpreter.
namespace weft::testing {
namespace {

using codegen::cuda::Interval;
using ir::Axis;
using ir::ExprPtr;
using ir::Op;
using ir::Variable;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A pair as the kernel sees it.
struct Point {
  float s = 0;
  int b = 0, h = 0, q = 0, k = 0;
};

/// What the kernel below takes.
struct Call {
  weft_args a = {};
  const Point* points = nullptr;
  float* out = nullptr;
  std::int64_t count = 0;
};

constexpr const char* kKernel = R"(
struct Point {
  float s;
  int b, h, q, k;
};
struct Call {
  weft_args a;
  const Point* points;
  float* out;
  i64 count;
};
extern "C" __global__ void evaluate(const Call call) {
  for (i64 i = threadIdx.x; i < call.count; i += blockDim.x) {
    const Point p = call.points[i];
    const Tile t = {p.b, p.h, (int)call.a.offset};
    EVALUATE
  }
}
)";

std::string header(std::string_view name) {
  for (int i = 0; i < codegen::cuda::kHeaderCount; ++i) {
    if (codegen::cuda::kHeaders[i].name == name) return codegen::cuda::kHeaders[i].text;
  }
  ADD_FAILURE() << name;
  return {};
}

/// Functions `value_<number>` of the expressions, and a kernel that stores each of them for each point.
std::string text_of(const std::vector<ExprPtr>& expressions, const std::vector<ir::Input>& inputs) {
  TextWriter w;
  w.raw(header("args.h") + "#ifndef WEFT_EMULATED\n" + header("ptx.cuh") + "#endif\n" + header("numbers.cuh"));
  w.raw("struct Tile { int b, h, first_query; };\n" + header("expressions.cuh"));
  std::string calls;
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    const auto head = fmt::format("float value_{}(const weft_args& a, const Tile& t, float s, int q, int k)", i);
    codegen::cuda::write_function(w, head, *expressions[i], inputs);
    calls += fmt::format(
        "store_global<float>(call.out + {} * call.count + i, value_{}(call.a, t, p.s, p.q, p.k));\n    ", i, i);
  }
  std::string kernel = kKernel;
  kernel.replace(kernel.find("EVALUATE"), 8, calls);
  w.raw(kernel);
  return std::move(w).take();
}

/// Inputs of every type and axis, and a launch that they belong to.
struct World {
  ir::Pattern pattern;
  ir::Shape shape{.batch = 3, .n_q = 7, .n_k = 20, .heads = 6, .kv_heads = 6, .d = 8, .d_v = 8};
  ir::InputValues values;
  std::vector<std::vector<std::int32_t>> words;
  std::vector<std::vector<unsigned char>> bytes;
  std::vector<std::vector<float>> reals;

  World() {
    pattern.name = "test";
    pattern.branches.push_back({.set = ir::make_set(ir::SetKind::all), .heads = {}, .range = {}});
    pattern.scale = ir::constant_real(1);
    add(ir::InputType::i32, {{Axis::Kind::batch, 0}, {Axis::Kind::tokens, 0}}, {3, 20});
    add(ir::InputType::u8, {{Axis::Kind::heads, 0}, {Axis::Kind::queries, 0}, {Axis::Kind::keys, 0}}, {6, 7, 20});
    add(ir::InputType::f32, {{Axis::Kind::extent, 11}}, {11});
    add(ir::InputType::f32, {{Axis::Kind::blocks, 0}, {Axis::Kind::extent, 5}}, {4, 5});
    pattern.inputs[3].block = 6;
  }

  void add(ir::InputType type, std::vector<Axis> axes, std::vector<std::int64_t> extents) {
    const auto number = values.size();
    pattern.inputs.push_back(
        {.name = fmt::format("t{}", number), .type = type, .axes = std::move(axes), .block = 0, .range = {}});
    ir::Tensor t(std::move(extents));
    std::mt19937 generator(static_cast<unsigned>(number));
    for (auto& v : t.data) {
      const auto bits = generator();
      const auto word = static_cast<std::int32_t>(bits) >> (bits % 32);
      if (type == ir::InputType::i32) v = word;
      if (type == ir::InputType::u8) v = bits % 256 == 0 ? 255 : static_cast<double>(bits >> 24);
      if (type == ir::InputType::f32) v = word % 4096;
    }
    words.emplace_back();
    bytes.emplace_back();
    reals.emplace_back();
    if (type == ir::InputType::i32) words.back().assign(t.data.begin(), t.data.end());
    if (type == ir::InputType::u8) bytes.back().assign(t.data.begin(), t.data.end());
    if (type == ir::InputType::f32) reals.back().assign(t.data.begin(), t.data.end());
    values.push_back(std::move(t));
  }

  weft_args arguments(std::vector<emulate::Region>& memory) const {
    weft_args a = {};
    a.batch = shape.batch;
    a.n_q = shape.n_q;
    a.n_k = shape.n_k;
    a.heads = shape.heads;
    a.offset = shape.offset_of(0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto type = pattern.inputs[i].type;
      const auto elements = static_cast<std::int64_t>(values[i].data.size());
      const void* data = words[i].data();
      if (type == ir::InputType::u8) data = bytes[i].data();
      if (type == ir::InputType::f32) data = reals[i].data();
      a.inputs[i].data = data;
      std::int64_t stride = 1;
      for (auto axis = values[i].shape.size(); axis-- > 0; stride *= values[i].shape[axis]) {
        a.inputs[i].strides[axis] = stride;
        a.inputs[i].extents[axis] = values[i].shape[axis];
      }
      memory.push_back({data, elements * (type == ir::InputType::u8 ? 1 : 4), false, fmt::format("input {}", i)});
    }
    return a;
  }

  /// Values of each expression at each point.
  std::vector<std::vector<float>> run(const std::vector<ExprPtr>& expressions, const std::vector<Point>& points) const {
    const auto program = emulate::Program::build(text_of(expressions, pattern.inputs), "evaluate");
    EXPECT_TRUE(program.ok()) << program.error().message
                              << (program.error().notes.empty() ? "" : program.error().notes[0]);
    if (!program.ok()) return {};
    std::vector<float> out(expressions.size() * points.size(), std::nanf(""));
    emulate::Launch launch;
    Call call{.a = arguments(launch.memory), .points = points.data(), .out = out.data()};
    call.count = static_cast<std::int64_t>(points.size());
    launch.args = &call;
    launch.args_bytes = sizeof call;
    launch.threads = 32;
    launch.memory.push_back(
        {points.data(), static_cast<std::int64_t>(points.size() * sizeof points[0]), false, "points"});
    launch.memory.push_back({out.data(), static_cast<std::int64_t>(out.size() * sizeof out[0]), true, "out"});
    const auto report = (*program)->launch(launch);
    EXPECT_TRUE(report.ok()) << report.error().message;
    if (report.ok() && !report->faults.empty()) ADD_FAILURE() << report->faults.front().text;
    std::vector<std::vector<float>> rows;
    for (std::size_t i = 0; i < expressions.size(); ++i) {
      rows.emplace_back(out.begin() + static_cast<std::ptrdiff_t>(i * points.size()),
                        out.begin() + static_cast<std::ptrdiff_t>((i + 1) * points.size()));
    }
    return rows;
  }

  double meant(const ExprPtr& e, const Point& p) const {
    ir::Pattern with = pattern;
    with.score = e;
    const ir::PairEvaluator evaluator(with, shape, values);
    return evaluator.score(static_cast<double>(p.s), p.b, p.h, p.q, p.k);
  }
};

// ---------------------------------------------------------------- integers

/// Random integer expressions: every operation, every variable, inputs under any index, constants of any size.
class Random {
 public:
  Random(const World& world, unsigned seed) : world_(world), generator_(seed) {}

  int below(int n) { return static_cast<int>(generator_() % static_cast<unsigned>(n)); }

  ExprPtr integer(int depth) {
    if (depth == 0 || below(6) == 0) return leaf();
    if (below(8) == 0) return input(below(2), depth);
    if (below(8) == 0) return ir::apply(Op::select, {boolean(depth - 1), integer(depth - 1), integer(depth - 1)});
    constexpr Op kOps[] = {Op::add,    Op::subtract, Op::multiply, Op::divide, Op::modulo,  Op::divide,
                           Op::modulo, Op::minimum,  Op::maximum,  Op::negate, Op::absolute};
    const Op op = kOps[below(static_cast<int>(std::size(kOps)))];
    if (op == Op::negate || op == Op::absolute) return ir::apply(op, {integer(depth - 1)});
    const bool by_constant = (op == Op::divide || op == Op::modulo) && below(2) == 0;
    return ir::apply(op, {integer(depth - 1), by_constant ? constant() : integer(depth - 1)});
  }

  ExprPtr boolean(int depth) {
    constexpr Op kLogical[] = {Op::logical_and, Op::logical_or};
    constexpr Op kCompare[] = {Op::less, Op::less_equal, Op::equal, Op::not_equal};
    if (depth > 1 && below(3) == 0) return ir::apply(kLogical[below(2)], {boolean(depth - 1), boolean(depth - 1)});
    if (depth > 1 && below(4) == 0) return ir::apply(Op::logical_not, {boolean(depth - 1)});
    if (depth > 1 && below(6) == 0) return ir::apply(kCompare[2 + below(2)], {boolean(depth - 1), boolean(depth - 1)});
    return ir::apply(kCompare[below(4)], {integer(std::max(0, depth - 1)), integer(std::max(0, depth - 1))});
  }

  Point point() {
    const auto& s = world_.shape;
    const auto offset = static_cast<int>(s.offset_of(0));
    return {.s = 0,
            .b = below(static_cast<int>(s.batch)),
            .h = below(static_cast<int>(s.heads)),
            .q = offset + below(static_cast<int>(s.n_q)),
            .k = below(static_cast<int>(s.n_k))};
  }

 private:
  ExprPtr constant() {
    constexpr std::int64_t kValues[] = {0,  1,  -1, 2,  3,          5,          7,         64,        4096,     -3,
                                        -8, 10, 31, 63, 1000000007, 2147483647, 1LL << 31, 1LL << 40, INT64_MAX};
    return ir::constant(kValues[below(static_cast<int>(std::size(kValues)))]);
  }

  ExprPtr leaf() {
    constexpr Variable kVariables[] = {Variable::b,   Variable::h,   Variable::q,    Variable::k,
                                       Variable::n_q, Variable::n_k, Variable::heads};
    return below(3) == 0 ? constant() : ir::variable(kVariables[below(static_cast<int>(std::size(kVariables)))]);
  }

  ExprPtr input(int number, int depth) {
    const auto& declared = world_.pattern.inputs[static_cast<std::size_t>(number)];
    std::vector<ExprPtr> indices;
    for (std::size_t i = 0; i < declared.axes.size(); ++i) indices.push_back(integer(below(2) * (depth - 1)));
    return ir::input_at(number, ir::Type::integer, std::move(indices));
  }

  const World& world_;
  std::mt19937 generator_;
};

/// Bits of an integer that f32 holds exactly.
std::vector<ExprPtr> in_parts(const ExprPtr& e) {
  const auto part = [&](std::int64_t divisor) {
    const ExprPtr shifted = ir::apply(Op::divide, {e, ir::constant(divisor)});
    return ir::apply(Op::to_real, {ir::apply(Op::modulo, {shifted, ir::constant(1 << 22)})});
  };
  return {part(1), part(1 << 22), part(std::int64_t{1} << 44)};
}

TEST(CudaExpressions, IntegersAreThoseOfTheInterpreter) {
  const World world;
  Random random(world, 7);
  std::vector<ExprPtr> wanted;
  for (int i = 0; i < 60; ++i) {
    for (const auto& part : in_parts(random.integer(1 + i % 6))) wanted.push_back(part);
  }
  for (int i = 0; i < 40; ++i) {
    wanted.push_back(ir::apply(Op::select, {random.boolean(1 + i % 5), ir::constant_real(2.5), ir::constant_real(-1)}));
  }
  std::vector<Point> points;
  for (int i = 0; i < 40; ++i) points.push_back(random.point());
  const auto got = world.run(wanted, points);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t e = 0; e < wanted.size(); ++e) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      ASSERT_EQ(static_cast<double>(got[e][i]), world.meant(wanted[e], points[i]))
          << ir::print(*wanted[e]) << " at b " << points[i].b << " h " << points[i].h << " q " << points[i].q << " k "
          << points[i].k;
    }
  }
}

/// What intervals promise holds for values inside them, the extreme ones included.
TEST(CudaExpressions, IntervalsHoldEveryValue) {
  std::mt19937_64 generator(3);
  const auto some = [&] {
    const auto bits = static_cast<std::int64_t>(generator());
    return generator() % 8 == 0 ? INT64_MIN : bits >> (generator() % 64);
  };
  const auto inside = [&](const Interval& of) {
    const std::int64_t corners[] = {of.lo, of.hi, std::clamp<std::int64_t>(0, of.lo, of.hi),
                                    std::clamp<std::int64_t>(-1, of.lo, of.hi), std::clamp(some(), of.lo, of.hi)};
    return corners[generator() % 5];
  };
  constexpr Op kOps[] = {Op::add,     Op::subtract, Op::multiply, Op::divide,  Op::modulo,
                         Op::minimum, Op::maximum,  Op::negate,   Op::absolute};
  int narrow = 0;
  for (int i = 0; i < 200000; ++i) {
    const Op op = kOps[generator() % std::size(kOps)];
    std::int64_t a = some(), b = some(), c = some(), d = some();
    const Interval x{std::min(a, b), std::max(a, b)}, y{std::min(c, d), std::max(c, d)};
    const bool one = op == Op::negate || op == Op::absolute;
    const Interval result = interval_of(op, one ? std::vector<Interval>{x} : std::vector<Interval>{x, y});
    narrow += result.fits_int() ? 1 : 0;
    const std::int64_t p = inside(x), q = inside(y);
    const std::int64_t value = ir::apply_integer(op, p, q);
    ASSERT_TRUE(value >= result.lo && value <= result.hi) << facts(op).sign << " of " << p << " and " << q << " is "
                                                          << value << ", not from " << result.lo << " to " << result.hi;
  }
  EXPECT_GT(narrow, 10000);
}

// ---------------------------------------------------------------- reals

/// Distance in units in the last place of f32 at the meant value.
double units_apart(float got, double meant) {
  if (std::isnan(meant)) return std::isnan(got) ? 0 : 1e30;
  if (std::isinf(static_cast<float>(meant)) || std::isinf(got)) return got == static_cast<float>(meant) ? 0 : 1e30;
  const double unit = std::max(std::ldexp(1.0, std::ilogb(std::max(std::abs(meant), 1e-300)) - 23), 1.2e-38);
  return std::abs(static_cast<double>(got) - meant) / unit;
}

std::vector<Point> special_points() {
  std::vector<Point> points;
  const float specials[] = {0.0F,  -0.0F, 1.0F,   -1.0F,   1e-30F,   -1e-7F,    3e-4F,      0.54F,   0.56F,
                            -0.7F, 8.9F,  -9.1F,  87.0F,   88.6F,    89.0F,     -86.0F,     -103.0F, 1e4F,
                            -1e4F, 1e30F, -1e30F, FLT_MAX, -FLT_MAX, kInfinity, -kInfinity, FLT_MIN, std::nanf("")};
  for (float s : specials) points.push_back({.s = s});
  std::mt19937 generator(5);
  std::uniform_real_distribution<float> exponents(-20, 7);
  for (int i = 0; i < 400; ++i) points.push_back({.s = std::exp2(exponents(generator)) * (i % 2 == 0 ? 1.0F : -1.0F)});
  return points;
}

TEST(CudaExpressions, FunctionsAreExactToAFewUnits) {
  const World world;
  const ExprPtr s = ir::variable(Variable::s);
  const struct {
    Op op;
    double units;
  } kFunctions[] = {{Op::exp, 2},     {Op::log, 2},    {Op::sqrt, 1},    {Op::tanh, 2},
                    {Op::sigmoid, 4}, {Op::negate, 0}, {Op::absolute, 0}};
  std::vector<ExprPtr> wanted;
  for (const auto& f : kFunctions) wanted.push_back(ir::apply(f.op, {s}));
  const auto points = special_points();
  const auto got = world.run(wanted, points);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t e = 0; e < wanted.size(); ++e) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double meant = world.meant(wanted[e], points[i]);
      ASSERT_LE(units_apart(got[e][i], meant), kFunctions[e].units)
          << ir::print(*wanted[e]) << " of " << points[i].s << " is " << got[e][i] << ", meant " << meant;
    }
  }
}

TEST(CudaExpressions, OperatorsOfTwoReals) {
  const World world;
  const ExprPtr s = ir::variable(Variable::s);
  std::vector<ExprPtr> wanted;
  for (double c : {3.0, -0.25, 50.0, 0x3p-10, 0x3p116}) {
    const ExprPtr other = ir::constant_real(c);
    for (Op op : {Op::add, Op::subtract, Op::multiply, Op::divide, Op::minimum, Op::maximum}) {
      wanted.push_back(ir::apply(op, {s, other}));
      wanted.push_back(ir::apply(op, {other, s}));
    }
    for (Op op : {Op::less, Op::less_equal, Op::equal, Op::not_equal}) {
      wanted.push_back(ir::apply(Op::select, {ir::apply(op, {s, other}), s, other}));
    }
  }
  auto points = special_points();
  for (float s_of : {3.0F, -0.25F, 50.0F}) points.push_back({.s = s_of});
  const auto got = world.run(wanted, points);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t e = 0; e < wanted.size(); ++e) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double meant = world.meant(wanted[e], points[i]);
      ASSERT_LE(units_apart(got[e][i], meant), 1.01)
          << ir::print(*wanted[e]) << " of " << points[i].s << " is " << got[e][i] << ", meant " << meant;
    }
  }
}

/// A remainder falls by the whole divisor where its quotient is one unit too large: divisions that a step follows are
/// exact.
TEST(CudaExpressions, StepsSeeExactQuotients) {
  const World world;
  const ExprPtr k = ir::variable(Variable::k);
  std::vector<ExprPtr> wanted;
  for (int divisor : {3, 7, 41, 47, 55}) {
    const ExprPtr real = ir::constant_real(divisor);
    const ExprPtr multiple = ir::apply(Op::multiply, {k, real});
    wanted.push_back(ir::apply(Op::modulo, {multiple, real}));
    wanted.push_back(ir::apply(
        Op::select, {ir::apply(Op::less, {ir::apply(Op::divide, {multiple, real}), ir::apply(Op::to_real, {k})}),
                     ir::constant_real(1), ir::constant_real(0)}));
  }
  std::vector<Point> points;
  for (int at = 0; at < 20; ++at) points.push_back({.k = at});
  const auto got = world.run(wanted, points);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t e = 0; e < wanted.size(); ++e) {
    for (std::size_t i = 0; i < points.size(); ++i) ASSERT_EQ(got[e][i], 0) << ir::print(*wanted[e]) << " at " << i;
  }
}

TEST(CudaExpressions, AlibiForAnyNumberOfHeads) {
  World world;
  const std::vector<ExprPtr> slope = {ir::apply(Op::alibi, {ir::variable(Variable::h)})};
  for (int heads : {1, 2, 3, 6, 8, 12, 16, 31, 64, 100, 128, 40000}) {
    world.shape.heads = world.shape.kv_heads = heads;
    std::vector<Point> points;
    for (int h = 0; h < heads; h += 1 + heads / 200) points.push_back({.h = h});
    const auto got = world.run(slope, points);
    ASSERT_EQ(got.size(), 1U);
    for (std::size_t i = 0; i < points.size(); ++i) {
      ASSERT_LE(units_apart(got[0][i], ir::alibi_slope(points[i].h, heads)), 1) << points[i].h << " of " << heads;
    }
  }
}

TEST(CudaExpressions, InputsAreReadWhereTheyAre) {
  World world;
  world.shape.offset = {4};
  const auto number = [](Variable v) { return ir::variable(v); };
  const ExprPtr far = ir::apply(Op::multiply, {number(Variable::k), ir::constant(std::int64_t{1} << 50)});
  const auto word = [](const ExprPtr& e) {
    return ir::apply(Op::to_real, {ir::apply(Op::modulo, {e, ir::constant(65536)})});
  };
  const std::vector<ExprPtr> wanted = {
      word(ir::input_at(0, ir::Type::integer, {number(Variable::b), number(Variable::k)})),
      word(ir::input_at(0, ir::Type::integer, {number(Variable::h), ir::apply(Op::negate, {far})})),
      word(ir::input_at(1, ir::Type::integer, {number(Variable::h), number(Variable::q), number(Variable::k)})),
      word(ir::input_at(1, ir::Type::integer, {number(Variable::k), number(Variable::k), far})),
      ir::input_at(2, ir::Type::real, {ir::apply(Op::subtract, {number(Variable::q), number(Variable::k)})}),
      ir::input_at(3, ir::Type::real, {ir::apply(Op::divide, {number(Variable::k), ir::constant(6)}), far})};
  std::vector<Point> points;
  for (int i = 0; i < 100; ++i) points.push_back({.b = i % 3, .h = i % 6, .q = 4 + i % 7, .k = i % 20});
  const auto got = world.run(wanted, points);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t e = 0; e < wanted.size(); ++e) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      ASSERT_EQ(static_cast<double>(got[e][i]), world.meant(wanted[e], points[i]))
          << ir::print(*wanted[e]) << " at " << i;
    }
  }
}

// ---------------------------------------------------------------- texts

std::string function_of(const ExprPtr& e) {
  TextWriter w;
  codegen::cuda::write_function(w, "float f()", *e, World().pattern.inputs);
  return std::move(w).take();
}

TEST(CudaExpressions, TextGrowsWithTheDifferentNodes) {
  ExprPtr shared = ir::variable(Variable::s), apart = shared;
  for (int i = 0; i < 12; ++i) {
    shared = ir::apply(Op::tanh, {ir::apply(Op::add, {shared, shared})});
    const auto again = [&](const auto& self, const ir::Expr& e) -> ExprPtr {
      if (e.args.empty()) return ir::variable(Variable::s);
      std::vector<ExprPtr> args;
      for (const auto& arg : e.args) args.push_back(self(self, *arg));
      return ir::apply(e.op, args);
    };
    if (i < 8) apart = again(again, *shared);
    if (i == 7) {
      EXPECT_EQ(function_of(apart), function_of(shared)) << "sharing in memory shows";
    }
  }
  EXPECT_LT(function_of(shared).size(), 1500U);
  ExprPtr deep = ir::variable(Variable::s);
  for (int i = 0; i < 600; ++i) deep = ir::apply(Op::exp, {ir::apply(Op::negate, {deep})});
  const auto text = function_of(deep);
  EXPECT_LT(text.size(), 60000U);
  for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    EXPECT_LT(end - at, 330U) << "a line that nobody reads";
  }
}

TEST(CudaExpressions, Width) {
  const auto q = ir::variable(Variable::q), k = ir::variable(Variable::k);
  const auto real = [](const ExprPtr& e) { return ir::apply(Op::to_real, {e}); };
  EXPECT_NE(function_of(real(ir::apply(Op::subtract, {q, k}))).find("return (float)(q - k);"), std::string::npos);
  EXPECT_NE(function_of(real(ir::apply(Op::multiply, {q, k}))).find("(i64)q * (i64)k"), std::string::npos);
  EXPECT_NE(function_of(real(ir::apply(Op::modulo, {q, ir::constant(64)}))).find("q & 63"), std::string::npos);
  EXPECT_NE(function_of(real(ir::apply(Op::divide, {k, ir::constant(3)}))).find("k / 3"), std::string::npos);
}

}  // namespace
}  // namespace weft::testing
