#include "tests/codegen/expression_kernel.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <random>

namespace weft::testing {
namespace {

using ir::apply;
using ir::constant;
using ir::ExprPtr;
using ir::Op;
using ir::Type;
using ir::Variable;

const ExprPtr kQ = ir::variable(Variable::q);
const ExprPtr kK = ir::variable(Variable::k);
const ExprPtr kS = ir::variable(Variable::s);

class Expressions : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    target_ = find_target(GetParam()).value();
    if (!host_can_execute(target_)) GTEST_SKIP() << "this machine cannot execute " << target_.name;
  }

  /// Integers and booleans, to the last bit.
  void expect_equal(const std::vector<ExprPtr>& expressions, const std::vector<Place>& places) {
    const ExpressionKernel kernel(expressions, {}, target_);
    for (const auto& place : places) {
      const auto got = kernel.run(place);
      const Reference want({}, {}, place);
      for (std::size_t i = 0; i < expressions.size(); ++i) {
        for (std::size_t lane = 0; lane < kernel.lanes(); ++lane) {
          ASSERT_EQ(got[i].integer(lane), want.integer(*expressions[i], lane))
              << ir::print(*expressions[i]) << " for q " << place.q[lane] << ", k " << place.k << ", s "
              << place.s[lane];
        }
      }
    }
  }

  Target target_;
};

const std::vector<std::int64_t>& special_integers() {
  constexpr std::int64_t kBig = std::int64_t{1} << 51;
  static const std::vector<std::int64_t> values = {0,
                                                   1,
                                                   -1,
                                                   2,
                                                   -2,
                                                   3,
                                                   -3,
                                                   7,
                                                   -7,
                                                   64,
                                                   -64,
                                                   1000,
                                                   -1000,
                                                   INT32_MAX,
                                                   INT32_MIN,
                                                   kBig - 1,
                                                   kBig,
                                                   -kBig,
                                                   -kBig - 1,
                                                   2 * kBig + 1,
                                                   1LL << 53,
                                                   INT64_MAX,
                                                   INT64_MIN,
                                                   INT64_MAX - 1,
                                                   INT64_MIN + 1,
                                                   123456789012345,
                                                   -123456789012345};
  return values;
}

std::vector<Place> integer_places() {
  std::vector<Place> out;
  std::mt19937_64 random(7);
  const auto& special = special_integers();
  for (std::int64_t k : special) {
    for (std::size_t first = 0; first < special.size() + kMostLanes; first += 4) {
      Place p;
      p.k = k;
      p.b = 3, p.h = 5, p.n_q = 100, p.n_k = 200, p.heads = 12;
      for (std::size_t lane = 0; lane < kMostLanes; ++lane) {
        const std::size_t at = first + lane;
        p.q[lane] = at < special.size() ? special[at] : static_cast<std::int64_t>(random()) >> (random() % 64);
      }
      out.push_back(p);
    }
  }
  return out;
}

TEST_P(Expressions, Integers) {
  std::vector<ExprPtr> expressions;
  const ExprPtr mixed = apply(Op::subtract, {apply(Op::modulo, {kQ, constant(7)}), constant(3)});
  const ExprPtr constants[] = {constant(8), constant(-8), constant(5), constant(-5), constant(INT64_MIN)};
  for (const Op op : {Op::add, Op::subtract, Op::multiply, Op::divide, Op::modulo, Op::minimum, Op::maximum, Op::less,
                      Op::less_equal, Op::equal, Op::not_equal}) {
    for (const auto& b : {kK, mixed, apply(Op::multiply, {kQ, kK})}) {
      expressions.push_back(apply(op, {kQ, b}));
      expressions.push_back(apply(op, {b, kQ}));
      expressions.push_back(apply(op, {kK, b}));
    }
    for (const auto& c : constants) {
      expressions.push_back(apply(op, {kQ, c}));
      expressions.push_back(apply(op, {kK, c}));
    }
  }
  for (const Op op : {Op::negate, Op::absolute}) {
    expressions.push_back(apply(op, {kQ}));
    expressions.push_back(apply(op, {kK}));
  }
  expect_equal(expressions, integer_places());
}

TEST_P(Expressions, BooleansAndEveryVariable) {
  const ExprPtr after = apply(Op::less, {kK, kQ});
  const ExprPtr even = apply(Op::equal, {apply(Op::modulo, {kQ, constant(2)}), constant(0)});
  const ExprPtr on_key = apply(Op::less, {kK, constant(4)});
  std::vector<ExprPtr> expressions;
  for (const Op op : {Op::logical_and, Op::logical_or, Op::equal, Op::not_equal}) {
    expressions.push_back(apply(op, {after, even}));
    expressions.push_back(apply(op, {on_key, even}));
    expressions.push_back(apply(op, {on_key, on_key}));
  }
  expressions.push_back(apply(Op::logical_not, {after}));
  expressions.push_back(apply(Op::logical_not, {on_key}));
  expressions.push_back(apply(Op::select, {even, kQ, kK}));
  expressions.push_back(apply(Op::select, {on_key, kQ, kK}));
  expressions.push_back(apply(Op::select, {on_key, after, even}));
  ExprPtr sum = kQ;
  for (const Variable v : {Variable::b, Variable::h, Variable::k, Variable::n_q, Variable::n_k, Variable::heads}) {
    sum = apply(Op::add, {apply(Op::multiply, {sum, constant(31)}), ir::variable(v)});
  }
  expressions.push_back(sum);
  expect_equal(expressions, integer_places());
}

ExprPtr random_integer(std::mt19937& random, int depth);

ExprPtr random_boolean(std::mt19937& random, int depth) {
  const auto integer = [&] { return random_integer(random, depth - 1); };
  switch (random() % 7) {
    case 0:
      return apply(Op::less, {integer(), integer()});
    case 1:
      return apply(Op::equal, {integer(), integer()});
    case 2:
      return apply(Op::not_equal, {integer(), integer()});
    case 3:
      return depth > 1 ? apply(Op::logical_not, {random_boolean(random, depth - 1)}) : apply(Op::less_equal, {kK, kQ});
    case 4:
      return depth > 1 ? apply(Op::logical_or, {random_boolean(random, depth - 1), random_boolean(random, depth - 1)})
                       : apply(Op::less_equal, {kQ, kK});
    case 5:
      return depth > 1 ? apply(Op::logical_and, {random_boolean(random, depth - 1), random_boolean(random, depth - 1)})
                       : apply(Op::less, {kK, kQ});
    default:
      return apply(Op::less_equal, {integer(), integer()});
  }
}

ExprPtr random_integer(std::mt19937& random, int depth) {
  if (depth <= 0 || random() % 8 == 0) {
    if (random() % 3 == 0) return constant(static_cast<std::int64_t>(random() % 40) - 12);
    return ir::variable(static_cast<Variable>(random() % 7));
  }
  constexpr Op kOps[] = {Op::add,     Op::subtract, Op::multiply, Op::divide,   Op::modulo,
                         Op::minimum, Op::maximum,  Op::negate,   Op::absolute, Op::select};
  const Op op = kOps[random() % std::size(kOps)];
  const auto next = [&] { return random_integer(random, depth - 1); };
  if (op == Op::select) return apply(op, {random_boolean(random, depth - 1), next(), next()});
  if (op == Op::negate || op == Op::absolute) return apply(op, {next()});
  return apply(op, {next(), next()});
}

TEST_P(Expressions, RandomTreesOfIntegers) {
  std::mt19937 random(20261121);
  std::vector<ExprPtr> expressions;
  for (int i = 0; i < 60; ++i) expressions.push_back(random_integer(random, 5));
  for (int i = 0; i < 60; ++i) expressions.push_back(random_boolean(random, 5));
  expect_equal(expressions, integer_places());
}

/// Reals come from two inputs, x[q] and y[q].
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : size_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), bytes_(bytes) {
    pages_ = mmap(nullptr, 3 * size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages_, size_, PROT_NONE);
    mprotect(static_cast<char*>(pages_) + 2 * size_, size_, PROT_NONE);
  }
  ~Guarded() { munmap(pages_, 3 * size_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  template <typename T>
  T* behind() const {  ///< the last bytes before the page without access
    return reinterpret_cast<T*>(static_cast<char*>(pages_) + 2 * size_ - bytes_);
  }
  template <typename T>
  T* first() const {
    return reinterpret_cast<T*>(static_cast<char*>(pages_) + size_);
  }

 private:
  void* pages_;
  std::size_t size_, bytes_;
};

ir::Axis axis(ir::Axis::Kind kind, std::int64_t extent = 0) { return {kind, extent}; }

/// One input of each type and of one to four axes, at indices that lie far outside as well.
TEST_P(Expressions, InputsAreReadInsideTheirExtents) {
  using Kind = ir::Axis::Kind;
  const std::vector<ir::Input> inputs = {
      input("f", ir::InputType::f32, {axis(Kind::heads), axis(Kind::queries), axis(Kind::keys)}),
      input("i", ir::InputType::i32, {axis(Kind::batch), axis(Kind::tokens)}),
      input("u", ir::InputType::u8, {axis(Kind::batch), axis(Kind::heads), axis(Kind::queries), axis(Kind::keys)}),
      input("one", ir::InputType::u8, {axis(Kind::extent, 7)})};
  const std::vector<std::vector<std::int64_t>> extents = {{2, 5, 6}, {3, 6}, {3, 2, 5, 6}, {7}};
  const ExprPtr h = ir::variable(Variable::h), b = ir::variable(Variable::b);
  const ExprPtr difference = apply(Op::subtract, {kQ, kK});
  const std::vector<ExprPtr> expressions = {ir::input_at(0, Type::real, {h, kQ, kK}),
                                            ir::input_at(0, Type::real, {h, kK, kK}),
                                            ir::input_at(0, Type::real, {kQ, kQ, kQ}),
                                            ir::input_at(1, Type::integer, {b, kQ}),
                                            ir::input_at(1, Type::integer, {b, kK}),
                                            ir::input_at(1, Type::integer, {b, difference}),
                                            ir::input_at(2, Type::integer, {b, h, kQ, kK}),
                                            ir::input_at(2, Type::integer, {b, h, kK, kK}),
                                            ir::input_at(3, Type::integer, {difference}),
                                            ir::input_at(3, Type::integer, {ir::input_at(1, Type::integer, {b, kQ})})};

  std::vector<ir::Tensor> tensors;
  std::vector<std::unique_ptr<Guarded>> memory;
  weft_args behind{}, before{};
  std::mt19937 random(3);
  for (std::size_t n = 0; n < inputs.size(); ++n) {
    ir::Tensor& t = tensors.emplace_back(extents[n]);
    const std::size_t size = inputs[n].type == ir::InputType::u8 ? 1 : 4;
    const Guarded& place = *memory.emplace_back(std::make_unique<Guarded>(t.data.size() * size));
    for (std::size_t i = 0; i < t.data.size(); ++i) {
      const auto number = static_cast<int>(random() % 200) - (inputs[n].type == ir::InputType::u8 ? 0 : 100);
      t.data[i] = number;
      for (bool last : {true, false}) {
        if (inputs[n].type == ir::InputType::f32)
          (last ? place.behind<float>() : place.first<float>())[i] = static_cast<float>(number);
        if (inputs[n].type == ir::InputType::i32)
          (last ? place.behind<std::int32_t>() : place.first<std::int32_t>())[i] = number;
        if (inputs[n].type == ir::InputType::u8)
          (last ? place.behind<std::uint8_t>() : place.first<std::uint8_t>())[i] = static_cast<std::uint8_t>(number);
      }
    }
    std::int64_t stride = 1;
    for (std::size_t i = extents[n].size(); i-- > 0; stride *= extents[n][i]) {
      behind.inputs[n].strides[i] = before.inputs[n].strides[i] = stride;
      behind.inputs[n].extents[i] = before.inputs[n].extents[i] = extents[n][i];
    }
    behind.inputs[n].data = place.behind<char>();
    before.inputs[n].data = place.first<char>();
  }
  const ExpressionKernel kernel(expressions, inputs, target_);
  for (std::int64_t k :
       {std::int64_t{0}, std::int64_t{3}, std::int64_t{5}, std::int64_t{6}, std::int64_t{-9}, INT64_MAX, INT64_MIN}) {
    for (std::int64_t first : {std::int64_t{-4}, std::int64_t{8}, INT64_MAX - 7, INT64_MIN}) {
      Place place;
      place.k = k;
      place.b = 2;
      place.h = 1;
      place.heads = 2;
      place.offset = 10;
      for (std::size_t lane = 0; lane < kMostLanes; ++lane) {
        place.q[lane] =
            first > 1000 ? first + static_cast<std::int64_t>(lane % 8) : first + static_cast<std::int64_t>(lane);
      }
      const Reference want(inputs, tensors, place);
      for (const auto& args : {behind, before}) {
        const auto got = kernel.run(place, args);
        for (std::size_t i = 0; i < expressions.size(); ++i) {
          for (std::size_t lane = 0; lane < kernel.lanes(); ++lane) {
            const bool is_real = expressions[i]->type == Type::real;
            ASSERT_EQ(
                is_real ? got[i].real(lane) : static_cast<double>(got[i].integer(lane)),
                is_real ? want.real(*expressions[i], lane) : static_cast<double>(want.integer(*expressions[i], lane)))
                << ir::print(*expressions[i], {"f", "i", "u", "one"}) << " for q " << place.q[lane] << ", k " << k;
          }
        }
      }
    }
  }
  // An axis without elements: nothing is read, all is 0.
  weft_args nothing = behind;
  for (auto& input : nothing.inputs) {
    input.data = nullptr;
    input.extents[1] = 0;
  }
  nothing.inputs[3].extents[0] = 0;
  for (const auto& result : kernel.run(Place{}, nothing)) {
    for (std::int64_t word : result.words) EXPECT_EQ(word, 0);
  }
}

TEST_P(Expressions, SharedPartsAreSpelledOnce) {
  ExprPtr e = kS;
  const auto lines = [&] {
    const std::string text = ExpressionKernel({e}, {}, target_).text();
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto none = lines();
  for (int i = 0; i < 40; ++i) e = apply(Op::add, {apply(Op::tanh, {e}), e});
  EXPECT_LT(lines() - none, 40 * 120);
  EXPECT_GT(lines() - none, 40 * 15);
}

TEST_P(Expressions, RowPartsStandInFrontOfTheLoop) {
  // floor_divide by lanes of what depends on the row alone is spelled before k is known.
  const ExprPtr block = apply(Op::divide, {kQ, constant(3)});
  const ExprPtr e = apply(Op::equal, {block, apply(Op::divide, {kK, constant(3)})});
  const std::string text = ExpressionKernel({e}, {}, target_).text();
  const auto k_load = text.find("i64 " + std::to_string(offsetof(Place, k)) + "\n");
  ASSERT_NE(k_load, std::string::npos);
  EXPECT_LT(text.find("@floor_divide(", text.find("@weft_kernel")), k_load);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Expressions, ::testing::Values("cpu:x86-64", "cpu:x86-64-v3", "cpu"),
                         [](const auto& which) { return "target" + std::to_string(which.index); });

}  // namespace
}  // namespace weft::testing
