#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/plan_interpreter.h"
#include "compiler/planner/planner.h"
#include "tests/codegen/any_kernel.h"
#include "tests/support/effort.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace weft::testing {
namespace {

using ir::make_set;
using ir::SetKind;

struct Problem {
  ir::Shape shape;
  ir::Tensor q, k, v;
};

Problem make_problem(ir::Shape shape, ir::DType dtype) {
  return {shape, rounded(normal({shape.batch, shape.n_q, shape.heads, shape.d}, 1), dtype),
          rounded(normal({shape.batch, shape.n_k, shape.kv_heads, shape.d}, 2), dtype),
          rounded(normal({shape.batch, shape.n_k, shape.kv_heads, shape.d_v}, 3), dtype)};
}

double largest(const ir::Tensor& t) {
  double most = 0;
  for (double v : t.data) most = std::max(most, std::abs(v));
  return most;
}

void expect_near(const ir::Tensor& got, const ir::Tensor& want, double bound, const std::string& what) {
  ASSERT_EQ(got.data.size(), want.data.size()) << what;
  double worst = 0;
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    if (std::isinf(want.data[i])) {
      ASSERT_EQ(got.data[i], want.data[i]) << what << " at " << i;
      continue;
    }
    ASSERT_FALSE(std::isnan(got.data[i])) << what << " at " << i;
    worst = std::max(worst, std::abs(got.data[i] - want.data[i]));
  }
  EXPECT_LE(worst, bound) << what;
}

class Kernels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!can_run(GetParam())) GTEST_SKIP() << "this machine does not execute " << GetParam();
  }
};

ir::DType widest() { return best_dtype(Kernels::GetParam()); }

void expect_matches(const ir::Pattern& pattern, const Problem& p, ir::DType dtype, const RunOptions& options = {}) {
  const Target target = find_target(Kernels::GetParam()).value();
  const ir::Bind bind{.d = p.shape.d, .d_v = p.shape.d_v, .dtype = dtype};
  auto kernel = AnyKernel::make(pattern, bind, target);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto want = ir::interpret(pattern, p.shape, p.q, p.k, p.v, {});
  ASSERT_TRUE(want.ok()) << want.error().message;
  const auto planned = ir::interpret_plan(kernel->plan(), p.shape, p.q, p.k, p.v, {});
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  expect_near(planned->o, want->o, 1e-10, "plan O\n" + ir::print(kernel->plan()));
  const auto got = kernel->run(p.shape, p.q, p.k, p.v, {}, options);
  ASSERT_TRUE(got.ok()) << got.error().message;
  const auto bounds = ir::error_bounds(pattern, dtype, p.shape.n_k, largest(p.v), want->max_abs_score);
  expect_near(got->o, want->o, bounds.o, "O\n" + ir::print(kernel->plan()));
  if (!want->lse.data.empty()) expect_near(got->lse, want->lse, bounds.lse, "LSE");
}

ir::Pattern one_branch(ir::SetPtr set) {
  ir::Pattern p;
  p.name = "test";
  p.branches.push_back({.set = std::move(set), .heads = {}, .range = {}});
  return p;
}

ir::Pattern longnet(std::vector<std::pair<std::int64_t, std::int64_t>> branches, bool causal) {
  ir::Pattern p;
  p.name = "longnet";
  for (const auto& [w, r] : branches) {
    auto phase = ir::apply(ir::Op::modulo, {ir::variable(ir::Variable::h), ir::constant(r)});
    auto set = ir::make_dilated(w, r, phase, false);
    if (causal) set = make_set(SetKind::intersection, std::vector<ir::SetPtr>{set, make_set(SetKind::causal)});
    p.branches.push_back({.set = set, .heads = {}, .range = {}});
  }
  return p;
}

ir::Shape square(std::int64_t n, std::int64_t heads, std::int64_t d) {
  return {.batch = 1, .n_q = n, .n_k = n, .heads = heads, .kv_heads = heads, .d = d, .d_v = d};
}

TEST_P(Kernels, Dense) {
  expect_matches(one_branch(make_set(SetKind::all)), make_problem(square(200, 2, 32), widest()), widest());
}

/// Rows are read and written to the last element of a head, no further: behind it lies NaN.
TEST_P(Kernels, EveryHeadDim) {
  if (find_target(GetParam()).value().kind == TargetKind::cuda) GTEST_SKIP() << "GPUs want multiples of 8";
  const auto check = [&](std::int64_t d, std::int64_t d_v, ir::DType dtype) {
    ir::Shape shape = square(75, 2, d);
    shape.d_v = d_v;
    SCOPED_TRACE("d " + std::to_string(d) + ", d_v " + std::to_string(d_v));
    expect_matches(one_branch(make_set(SetKind::window, {40, 3})), make_problem(shape, dtype), dtype,
                   {.layout = {.head_major = true, .row_gap = 3}});
  };
  for (std::int64_t d : {1, 2, 3, 5, 7, 9, 12, 31, 100, 255, 256}) check(d, d, ir::DType::f32);
  check(64, 13, ir::DType::f32);
  check(13, 64, ir::DType::f32);
  for (const auto dtype : {ir::DType::f16, ir::DType::bf16}) {
    for (std::int64_t d : {1, 6, 15, 81}) check(d, d + 1, dtype);
  }
}

TEST_P(Kernels, Causal) {
  expect_matches(one_branch(make_set(SetKind::causal)), make_problem(square(333, 2, 64), widest()), widest());
}

TEST_P(Kernels, Window) {
  expect_matches(one_branch(make_set(SetKind::window, {70, 0})), make_problem(square(500, 1, 64), widest()), widest());
}

TEST_P(Kernels, Longnet) {
  for (bool causal : {false, true}) {
    expect_matches(longnet({{64, 1}, {128, 2}, {256, 4}}, causal), make_problem(square(600, 4, 32), widest()),
                   widest());
    expect_matches(longnet({{100, 1}, {130, 3}, {256, 5}}, causal), make_problem(square(600, 4, 32), widest()),
                   widest());
  }
}

/// Rows of a segment stand residue by residue in its tiles: each is once the first, the last or the only one in range.
TEST_P(Kernels, OneRowAtEveryPosition) {
  constexpr std::int64_t kKeys = 256;
  ir::Shape shape{.batch = kKeys, .n_q = 1, .n_k = kKeys, .heads = 1, .kv_heads = 1, .d = 16, .d_v = 16};
  shape.offset.resize(kKeys);
  std::iota(shape.offset.begin(), shape.offset.end(), 0);
  expect_matches(longnet({{64, 1}, {256, 4}}, false), make_problem(shape, widest()), widest());
}

TEST_P(Kernels, StoredTypes) {
  for (auto dtype : {ir::DType::f16, ir::DType::bf16}) {
    expect_matches(longnet({{64, 1}, {128, 2}}, true), make_problem(square(300, 2, 40), dtype), dtype);
  }
}

/// Whichever form the machine's units favour, the other is right too: for many rows, few, and parts of blocks.
TEST_P(Kernels, ProductsOfBf16InPairsAndWidened) {
  if (!find_target(GetParam()).value().has_bf16_dot()) GTEST_SKIP() << "it has no pairs of bf16";
  for (const int products : {1, 2}) {
    SCOPED_TRACE("products " + std::to_string(products));
    for (const std::int64_t n_q : {3, 300}) {
      auto shape = square(300, 2, 40);
      shape.n_q = n_q;
      for (auto pattern : {one_branch(make_set(SetKind::all)), longnet({{64, 1}, {128, 2}}, true)}) {
        pattern.schedule = {{.key = "products", .value = products, .range = {}}};
        expect_matches(pattern, make_problem(shape, ir::DType::bf16), ir::DType::bf16);
      }
    }
  }
}

/// As in decoding; a fifth query is computed like many. GPUs have no form of their own for it.
TEST_P(Kernels, FewQueries) {
  if (find_target(GetParam()).value().kind == TargetKind::cuda) GTEST_SKIP() << "CPUs only";
  const auto widths = make_set(
      SetKind::unite, std::vector<ir::SetPtr>{make_set(SetKind::sink, {150}), make_set(SetKind::window, {70, 200})});
  for (auto dtype : {ir::DType::f32, ir::DType::f16, ir::DType::bf16}) {
    for (const auto& [d, d_v] : {std::pair<std::int64_t, std::int64_t>{64, 64}, {32, 128}, {16, 48}, {40, 24}}) {
      for (std::int64_t n_q : {1, 3, 4, 5}) {
        SCOPED_TRACE("n_q " + std::to_string(n_q) + ", d " + std::to_string(d) + ", " + ir::to_string(dtype));
        const ir::Shape shape{.batch = 2, .n_q = n_q, .n_k = 300, .heads = 4, .kv_heads = 2, .d = d, .d_v = d_v};
        const auto pattern = n_q % 2 == 1 ? one_branch(make_set(SetKind::all)) : one_branch(widths);
        expect_matches(pattern, make_problem(shape, dtype), dtype, {.layout = {.head_major = true, .row_gap = 8}});
      }
    }
  }
}

/// Rows lie side by side without a gap: what is read or written behind one belongs to the next.
TEST_P(Kernels, AnyHeadDim) {
  const std::pair<std::int64_t, std::int64_t> dims[] = {{1, 1}, {3, 5}, {20, 12}, {33, 66}, {100, 100}, {255, 129}};
  std::size_t number = 0;
  for (const auto& [d, d_v] : dims) {
    // On GPUs compiling costs: of each class some.
    const std::string target = GetParam();
    if (!test::tries_all() && target.starts_with("sm_") && !test::takes_turn(number++, target == "sm_61" ? 0 : 1, 2))
      continue;
    for (auto dtype : {ir::DType::f32, ir::DType::f16}) {
      const ir::Shape shape{.batch = 2, .n_q = 70, .n_k = 100, .heads = 2, .kv_heads = 1, .d = d, .d_v = d_v};
      expect_matches(one_branch(make_set(SetKind::window, {40, 0})), make_problem(shape, dtype), dtype);
      if (dtype == ir::DType::f32) continue;
      expect_matches(one_branch(make_set(SetKind::causal)), make_problem(shape, dtype), dtype,
                     {.layout = {.head_major = true, .row_gap = 4 - d % 4}});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Kernels, ::testing::Values("cpu", "cpu:znver4", "sm_61", "sm_75", "sm_80"),
                         [](const auto& of) {
                           return std::string(of.param).substr(std::string_view(of.param).find(':') + 1);
                         });

}  // namespace
}  // namespace weft::testing
