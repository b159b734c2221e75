#include "tests/support/backward.h"
#include "tests/support/effort.h"
#include "tests/support/program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <string_view>

/// Gradients of the CPU where random programs are too short: several units of rows, phases, heads that share keys; NaN
/// at any place; sums over very many rows and keys.
namespace weft::test {
namespace {

struct Case {
  const char* text;
  ir::Shape shape;
  ir::DType dtype = ir::DType::f32;
};

/// Lowered, with all that a loss begins with.
class Loss {
 public:
  explicit Loss(const Case& of, std::uint64_t seed = 3)
      : pattern_(lowered({.text = of.text, .pattern = "p"}).value()),
        tensors_(draw_tensors(of.shape, of.dtype, seed)),
        inputs_(draw_inputs(pattern_, of.shape, seed)),
        problem_(draw_backward(pattern_, of.shape, of.dtype, tensors_.q, tensors_.k, tensors_.v, inputs_, seed)) {}
  Loss(const Loss&) = delete;
  Loss& operator=(const Loss&) = delete;

  BackwardProblem& problem() { return problem_; }
  const BackwardProblem& problem() const { return problem_; }
  Tensors& tensors() { return tensors_; }
  Result<BackwardKernel> kernel(const std::string& target = "cpu") const {
    return BackwardKernel::make(pattern_, problem_.shape, problem_.dtype, target);
  }

 private:
  ir::Pattern pattern_;
  Tensors tensors_;
  ir::InputValues inputs_;
  BackwardProblem problem_;
};

/// Rows of more than one unit (tiles_of_unit), so that sums are joined.
const Case kLong[] = {
    {"pattern p { branch all; }",
     {.n_q = 1100, .n_k = 300, .heads = 2, .kv_heads = 1, .d = 16, .d_v = 24, .offset = {0}}},
    {"pattern p { keep causal; }", {.batch = 2, .n_q = 700, .n_k = 700, .heads = 2, .kv_heads = 2, .d = 8, .d_v = 8}},
    {"pattern p { keep window(100, 0); }", {.n_q = 1300, .n_k = 1300, .heads = 4, .kv_heads = 2, .d = 16, .d_v = 16}},
    {"pattern p { branches dilated(segments: [1000, 1537, 1700], rates: [1, 2, 3]); keep causal; }",
     {.n_q = 1800, .n_k = 1800, .heads = 2, .kv_heads = 1, .d = 8, .d_v = 8}},
    {"pattern p { branches dilated(segments: [64, 128, 256], rates: [1, 2, 4]); combine joint detached; }",
     {.n_q = 900, .n_k = 900, .heads = 2, .kv_heads = 2, .d = 8, .d_v = 8}},
    {"pattern p { branches dilated(segments: [64, 256], rates: [1, 4]); combine mean; }",
     {.n_q = 900, .n_k = 900, .heads = 2, .kv_heads = 2, .d = 8, .d_v = 8}},
    {"pattern p { input bias: f32[heads, keys]; input gate: f32[heads]; keep causal; score s * gate[h] + bias[h, k]; }",
     {.n_q = 650, .n_k = 650, .heads = 3, .kv_heads = 1, .d = 8, .d_v = 8}},
    {"pattern p { input z: f32[heads]; branches dilated(segments: [1000, 1537, 1700], rates: [1, 2, 3]); keep causal; "
     "sink_logit z[h]; }",
     {.n_q = 1800, .n_k = 1800, .heads = 2, .kv_heads = 1, .d = 8, .d_v = 8}},
    {"pattern p { input z: f32[heads]; branch causal; branch window(90, -1); weights sigmoid(s + z[h] - 3); }",
     {.n_q = 900, .n_k = 900, .heads = 2, .kv_heads = 1, .d = 16, .d_v = 8}},
    {"pattern p { keep causal; dropout 0.3; }",
     {.n_q = 640, .n_k = 640, .heads = 2, .kv_heads = 1, .d = 8, .d_v = 8, .offset = {}, .dropout_seed = 99}},
    {"pattern p { keep causal; score 20 * tanh(s / 20); }",
     {.n_q = 600, .n_k = 640, .heads = 1, .kv_heads = 1, .d = 40, .d_v = 24},
     ir::DType::bf16},
};

class LongBackward : public ::testing::TestWithParam<Case> {};

TEST_P(LongBackward, IsTheInterpretersOnAnyThreads) {
  Loss loss(GetParam());
  for (const char* target : {"cpu", "cpu:x86-64"}) {
    const auto kernel = loss.kernel(target);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const auto one = kernel->run(loss.problem(), {.threads = 1});
    ASSERT_TRUE(one.ok()) << one.error().message;
    EXPECT_EQ(difference(loss.problem(), *one), "") << target;
    for (const int threads : {2, 3, 7}) {
      const auto many = kernel->run(loss.problem(), {.threads = threads});
      ASSERT_TRUE(many.ok()) << many.error().message;
      EXPECT_EQ(difference_of_bits(*one, *many), "") << target << ", " << threads << " threads";
    }
  }
}

TEST_P(LongBackward, OfASliceHasTheBitsOfTheWhole) {
  Loss loss(GetParam());
  const auto kernel = loss.kernel();
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto whole = kernel->run(loss.problem());
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  const auto& s = loss.problem().shape;
  const std::int64_t row = s.heads * s.d;
  for (const auto& [first, rows] : {std::pair<std::int64_t, std::int64_t>{0, 77}, {37, 500}, {s.n_q - 1, 1}}) {
    const auto slice = kernel->run(loss.problem(), {.first_row = first, .rows = rows});
    ASSERT_TRUE(slice.ok()) << slice.error().message;
    ir::Gradients dq = *slice, of_whole = *whole;
    for (auto* gradients : {&dq, &of_whole}) gradients->dk = gradients->dv = ir::Tensor(), gradients->inputs.clear();
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t i = 0; i < s.n_q * row; ++i) {
        const auto at = static_cast<std::size_t>(b * s.n_q * row + i);
        if (i >= first * row && i < (first + rows) * row) continue;
        EXPECT_TRUE(std::isnan(dq.dq.data[at])) << "a row of nobody is written";
        of_whole.dq.data[at] = dq.dq.data[at];
      }
    }
    EXPECT_EQ(difference_of_bits(of_whole, dq), "") << "rows " << first << " to " << first + rows;
  }
}

INSTANTIATE_TEST_SUITE_P(, LongBackward, ::testing::ValuesIn(kLong),
                         [](const auto& row) { return fmt::format("case_{}", row.index); });

/// Positions of queries before the first key are negative, and dK and dV walk over them.
const char* const kOfBlocks[] = {
    "pattern p { branch blocks(16, where(k % 3 == q % 5)); }",
    "pattern p { branch blocks(64, where(k % 2 == q % 3)); }",
    "pattern p { branch blocks(16, random(2, seed: 3)); }",
    "pattern p { branch where(q / 40 == k / 30); }",
};
class BackwardOfMoreQueries : public ::testing::TestWithParam<const char*> {};

TEST_P(BackwardOfMoreQueries, IsTheInterpreters) {
  for (const bool matrices : {false, true}) {
    const Loss loss({.text = GetParam(),
                     .shape = {.n_q = 200, .n_k = 70, .heads = 2, .kv_heads = 1, .d = 16, .d_v = 16},
                     .dtype = matrices ? ir::DType::f16 : ir::DType::f32});
    const auto kernel = loss.kernel(matrices ? "emulate:sm_80" : "emulate:sm_61");
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const auto found = kernel->run(loss.problem());
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(difference(loss.problem(), *found), "") << (matrices ? "by matrices" : "on plain lanes");
  }
}

INSTANTIATE_TEST_SUITE_P(, BackwardOfMoreQueries, ::testing::ValuesIn(kOfBlocks),
                         [](const auto& row) { return fmt::format("case_{}", row.index); });

/// What slices of the heads leave, each of one head of K and V, put together; empty: it is the whole's.
std::string difference_of_heads(const Loss& loss, const BackwardProblem& problem, const std::string& target) {
  const auto kernel = loss.kernel(target);
  if (!kernel) return kernel.error().message;
  const auto whole = kernel->run(problem);
  if (!whole) return whole.error().message;
  const auto& s = problem.shape;
  const std::int64_t group = s.heads / s.kv_heads;
  ir::Gradients joined;
  const auto put = [](const ir::Tensor& from, ir::Tensor& to, std::int64_t first, std::int64_t count) {
    if (to.data.empty()) to = ir::Tensor(from.shape);
    const std::int64_t heads = from.shape[2], dim = from.shape[3];
    std::string wrong;
    for (std::int64_t i = 0; i < std::ssize(from.data); ++i) {
      const std::int64_t head = i / dim % heads;
      const auto at = static_cast<std::size_t>(i);
      if (head >= first && head < first + count)
        to.data[at] = from.data[at];
      else if (!std::isnan(from.data[at]))
        wrong = "a head of nobody is written";
    }
    return wrong;
  };
  for (std::int64_t kv = 0; kv < s.kv_heads; ++kv) {
    const auto slice = kernel->run(problem, {.first_head = kv * group, .heads = group});
    if (!slice) return slice.error().message;
    for (const auto& wrong : {put(slice->dq, joined.dq, kv * group, group), put(slice->dk, joined.dk, kv, 1),
                              put(slice->dv, joined.dv, kv, 1)}) {
      if (!wrong.empty()) return wrong;
    }
    if (joined.inputs.empty()) {
      joined.inputs = slice->inputs;
      continue;
    }
    for (std::size_t i = 0; i < joined.inputs.size(); ++i) {
      for (std::size_t at = 0; at < joined.inputs[i].data.size(); ++at)
        joined.inputs[i].data[at] += slice->inputs[i].data[at];
    }
  }
  const auto off = difference(problem, joined);
  if (!off.empty()) return off;
  for (std::size_t i = 0; i < joined.inputs.size(); ++i) joined.inputs[i] = whole->inputs[i];
  return difference_of_bits(*whole, joined);
}

TEST(Backward, OfSlicesOfTheHeadsHasTheBitsOfTheWhole) {
  std::size_t number = 0;
  for (const char* text :
       {"pattern p { branches dilated(segments: [32, 50], rates: [2, 3]); combine sum; }",
        "pattern p { input bias: f32[batch, heads, keys]; input gate: f32[queries]; keep causal | lag(5); dropout 0.2; "
        "score s * gate[q] + bias[b, h, k] + alibi(h) * (k - q); }",
        "pattern p { keep blocks(16, top(2, by: pooled, causal: false) | random(2, seed: 3)); }"}) {
    for (const auto& [target, dtype] : {std::pair{"cpu", ir::DType::f32},
                                        {"interpreter", ir::DType::f32},
                                        {"emulate:sm_61", ir::DType::f32},
                                        {"emulate:sm_80", ir::DType::f16}}) {
      if (!takes_turn_on(target, number)) continue;
      const Case small{text,
                       {.batch = 2,
                        .n_q = 90,
                        .n_k = 90,
                        .heads = 6,
                        .kv_heads = 3,
                        .d = 16,
                        .d_v = 8,
                        .offset = {},
                        .dropout_seed = 5},
                       dtype};
      Loss loss(small, 8);
      EXPECT_EQ(difference_of_heads(loss, loss.problem(), target), "") << text << " on " << target;
    }
    ++number;
  }
}

/// An entry of a batch has the bits that it has alone.
TEST(Backward, DoesNotDependOnTheBatch) {
  const char* const text = "pattern p { branches dilated(segments: [64, 128], rates: [1, 2]); keep causal; }";
  Loss three({text, {.batch = 3, .n_q = 600, .n_k = 600, .heads = 2, .kv_heads = 1, .d = 16, .d_v = 16}}, 4);
  Loss one({text, {.batch = 1, .n_q = 600, .n_k = 600, .heads = 2, .kv_heads = 1, .d = 16, .d_v = 16}}, 4);
  const auto take_second = [](const ir::Tensor& from, ir::Tensor& to) {
    std::copy_n(from.data.begin() + std::ssize(to.data), to.data.size(), to.data.begin());
  };
  take_second(three.tensors().q, one.tensors().q);
  take_second(three.tensors().k, one.tensors().k);
  take_second(three.tensors().v, one.tensors().v);
  take_second(three.problem().d_o, one.problem().d_o);
  const auto kernel = one.kernel();
  ASSERT_TRUE(kernel.ok());
  const auto all = kernel->run(three.problem()), alone = kernel->run(one.problem());
  ASSERT_TRUE(all.ok() && alone.ok());
  ir::Gradients second = *alone;
  take_second(all->dq, second.dq);
  take_second(all->dk, second.dk);
  take_second(all->dv, second.dv);
  EXPECT_EQ(difference_of_bits(second, *alone), "");
}

/// NaN and infinities reach what keeps them and nothing else, in every kind of block.
class WildBackward : public ::testing::TestWithParam<const char*> {};

TEST_P(WildBackward, StaysWhereItBelongs) {
  const ir::Shape shape{.n_q = 150, .n_k = 170, .heads = 2, .kv_heads = 1, .d = 8, .d_v = 8};
  std::mt19937_64 random(7);
  for (const char* target : {"cpu", "cpu:x86-64"}) {
    for (int turn = 0; turn < 8; ++turn) {
      // A key may spoil the rows that keep it, also those that weigh it 0.
      const bool of_keys = turn % 4 == 1 || turn % 4 == 2;
      if (of_keys && std::string_view(GetParam()).find("-inf") != std::string_view::npos) continue;
      Loss loss({GetParam(), shape}, 2 * static_cast<std::uint64_t>(turn));
      const auto kernel = loss.kernel(target);
      ASSERT_TRUE(kernel.ok()) << kernel.error().message;
      auto& t = loss.tensors();
      ir::Tensor* const places[] = {&t.q, &t.k, &t.v, &loss.problem().d_o};
      ir::Tensor& spoiled = *places[turn % 4];
      spoiled.data[random() % spoiled.data.size()] = std::nan("");
      const auto found = kernel->run(loss.problem());
      ASSERT_TRUE(found.ok()) << found.error().message;
      const auto meant = loss.problem().meant();
      ASSERT_TRUE(meant.ok());
      const auto compare = [&](const char* name, const ir::Tensor& a, const ir::Tensor& b) {
        for (std::size_t i = 0; i < b.data.size(); ++i)
          ASSERT_EQ(std::isnan(a.data[i]), std::isnan(b.data[i]))
              << target << " " << name << "[" << i << "], turn " << turn;
      };
      compare("dq", found->dq, meant->dq);
      compare("dk", found->dk, meant->dk);
      compare("dv", found->dv, meant->dv);
      for (std::size_t i = 0; i < meant->inputs.size(); ++i) compare("input", found->inputs[i], meant->inputs[i]);
      EXPECT_TRUE(std::any_of(meant->dq.data.begin(), meant->dq.data.end(), [](double x) { return !std::isnan(x); }));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, WildBackward,
                         ::testing::Values("pattern p { keep window(20, 5); }",
                                           "pattern p { branches dilated(segments: [32, 64], rates: [1, 2]); }",
                                           "pattern p { keep where((q - k) % 3 != 1) & causal; }",
                                           "pattern p { keep segment(64); }",
                                           // Most rows keep nothing but their sink.
                                           "pattern p { input z: f32[heads]; keep where(q % 8 == 1) & window(40, 0); "
                                           "sink_logit z[h]; }",
                                           "pattern p { keep window(20, 5); weights sigmoid; }",
                                           // Rows that keep keys and weigh none of them.
                                           "pattern p { score select(q % 8 == 1, s, -inf); }",
                                           "pattern p { branch window(9, 0); branch sink(2); combine sum; }"),
                         [](const auto& row) { return fmt::format("pattern_{}", row.index); });

/// Uniform weights, one-sided dO and V: sums that rounding would move if each key or row were added to a large sum.
class ManyBackward : public testing::TestWithParam<std::pair<std::int64_t, std::int64_t>> {};

TEST_P(ManyBackward, SumsOverRowsStayExact) {
  const auto [rows, dim] = GetParam();
  const Case of{"pattern p { branch all; }",
                {.n_q = rows, .n_k = 8, .heads = 1, .kv_heads = 1, .d = dim, .d_v = dim, .offset = {0}}};
  Loss loss(of, 2);
  auto& t = loss.tensors();
  std::fill(t.q.data.begin(), t.q.data.end(), 0.0);
  std::fill(t.v.data.begin(), t.v.data.end(), 1.0);
  std::fill(loss.problem().d_o.data.begin(), loss.problem().d_o.data.end(), static_cast<float>(1.1));
  const auto kernel = loss.kernel();
  ASSERT_TRUE(kernel.ok());
  const auto found = kernel->run(loss.problem());
  ASSERT_TRUE(found.ok()) << found.error().message;
  const double meant = static_cast<float>(1.1) * static_cast<double>(rows) / 8;
  for (const double x : found->dv.data) EXPECT_NEAR(x / meant, 1, 5e-6);
}

TEST_P(ManyBackward, SumsOverKeysStayExact) {
  const auto [keys, dim] = GetParam();
  const Case of{"pattern p { branch all; }", {.n_q = 2, .n_k = keys, .heads = 1, .kv_heads = 1, .d = dim, .d_v = dim}};
  Loss loss(of, 2);
  auto& t = loss.tensors();
  std::fill(t.q.data.begin(), t.q.data.end(), 0.0);
  // dS is the same for half of the keys, and for the other half its opposite, where K is 0.
  for (std::size_t i = 0; i < t.v.data.size(); ++i) {
    const bool first = i < t.v.data.size() / 2;
    t.v.data[i] = first ? 1 : -1;
    t.k.data[i] = first ? static_cast<float>(1.1) : 0;
  }
  std::fill(loss.problem().d_o.data.begin(), loss.problem().d_o.data.end(), 1.0);
  const auto kernel = loss.kernel();
  ASSERT_TRUE(kernel.ok());
  const auto found = kernel->run(loss.problem());
  ASSERT_TRUE(found.ok()) << found.error().message;
  const double meant = std::sqrt(static_cast<double>(dim)) * static_cast<double>(static_cast<float>(1.1)) / 2;
  for (const double x : found->dq.data) EXPECT_NEAR(x / meant, 1, 2e-6);
}

INSTANTIATE_TEST_SUITE_P(Lengths, ManyBackward,
                         testing::Values(std::pair{std::int64_t{1} << 20, 8}, std::pair{std::int64_t{1} << 24, 1}));

}  // namespace
}  // namespace weft::test
