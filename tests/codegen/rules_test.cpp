#include "codegen/cpu/emit.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/planner/planner.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/parts.h"
#include "runtime/object/elf.h"
#include "tests/codegen/any_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

/// The promises of the semantics page that are about kernels: what may reach which row, bits, and the checks that
/// have caught real libraries (section 11).
namespace weft::testing {
namespace {

using ir::make_set;
using ir::SetKind;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ir::SetPtr both(ir::SetPtr a, ir::SetPtr b) { return make_set(SetKind::intersection, std::vector<ir::SetPtr>{a, b}); }

ir::Pattern of(std::vector<ir::SetPtr> sets) {
  ir::Pattern p;
  p.name = "rules";
  for (auto& s : sets) p.branches.push_back({.set = std::move(s), .heads = {}, .range = {}});
  return p;
}

ir::SetPtr dilated(std::int64_t w, std::int64_t r) {
  return ir::make_dilated(w, r, ir::apply(ir::Op::modulo, {ir::variable(ir::Variable::h), ir::constant(r)}), false);
}

struct Trial {
  ir::DType dtype;
  ir::Pattern pattern;
  ir::Shape shape;
  AnyKernel kernel;
  ir::Tensor q, k, v;

  static Trial make(ir::Pattern p, ir::Shape s, const std::string& target) {
    const ir::DType dtype = best_dtype(target);
    auto kernel = AnyKernel::make(p, {.d = s.d, .d_v = s.d_v, .dtype = dtype}, find_target(target).value());
    EXPECT_TRUE(kernel.ok()) << kernel.error().message;
    return {dtype,
            std::move(p),
            s,
            std::move(*kernel),
            rounded(normal({s.batch, s.n_q, s.heads, s.d}, 1), dtype),
            rounded(normal({s.batch, s.n_k, s.kv_heads, s.d}, 2), dtype),
            rounded(normal({s.batch, s.n_k, s.kv_heads, s.d_v}, 3), dtype)};
  }
  ir::Outcome run(const RunOptions& options = {}) const {
    auto out = kernel.run(shape, q, k, v, {}, options);
    EXPECT_TRUE(out.ok()) << out.error().message;
    return std::move(*out);
  }
};

ir::Shape square(std::int64_t n, std::int64_t heads = 2, std::int64_t d = 16) {
  return {.batch = 1, .n_q = n, .n_k = n, .heads = heads, .kv_heads = heads, .d = d, .d_v = d};
}

std::vector<ir::Pattern> some_patterns() {
  const auto causal = make_set(SetKind::causal);
  return {of({causal}),
          of({both(dilated(64, 1), causal), both(dilated(128, 2), causal), both(dilated(256, 4), causal)}),
          of({make_set(SetKind::unite,
                       std::vector<ir::SetPtr>{make_set(SetKind::sink, {4}), make_set(SetKind::window, {40, 0})})})};
}

/// Every rule, on every backend.
class Rules : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!can_run(GetParam())) GTEST_SKIP() << "this machine does not execute " << GetParam();
  }
  static Trial trial(ir::Pattern p, ir::Shape s) { return Trial::make(std::move(p), s, GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Targets, Rules, ::testing::Values("cpu", "cpu:znver4", "sm_61", "sm_80"), [](const auto& of) {
  return std::string(of.param).substr(std::string_view(of.param).find(':') + 1);
});

TEST_P(Rules, NanAndInfinityStayWithTheRowsThatKeepTheKey) {
  for (const auto& pattern : some_patterns()) {
    for (double bad : {kNan, kInfinity, -kInfinity}) {
      for (bool in_value : {true, false}) {
        Trial s = trial(pattern, square(300));
        const ir::Outcome clean = s.run();
        const std::int64_t key = 130;
        for (std::int64_t h = 0; h < 2; ++h) (in_value ? s.v : s.k).at(0, key, h, 3) = bad;
        const ir::Outcome got = s.run();
        const ir::PairEvaluator meaning(s.pattern, s.shape, {});
        bool reached = false;
        for (std::int64_t q = 0; q < 300; ++q) {
          for (std::int64_t h = 0; h < 2; ++h) {
            if (meaning.multiplicity(0, h, q, key) > 0) {
              reached =
                  reached || !std::isfinite(got.o.at(0, q, h, 3)) || got.o.at(0, q, h, 0) != clean.o.at(0, q, h, 0);
              continue;
            }
            for (std::int64_t c = 0; c < 16; ++c) {
              ASSERT_EQ(got.o.at(0, q, h, c), clean.o.at(0, q, h, c)) << "row " << q << " does not keep key " << key;
            }
          }
        }
        EXPECT_TRUE(reached) << "the bad key must be visible to rows that keep it";
      }
    }
  }
}

TEST_P(Rules, BitsDoNotDependOnBatchOrThreads) {
  for (const auto& pattern : some_patterns()) {
    const Trial s = trial(pattern, square(333));
    const ir::Outcome whole = s.run();
    // Other cuts of the work, as other numbers of threads make them.
    EXPECT_EQ(s.run({.layout = {}, .tiles_per_call = 1}).o.data, whole.o.data);
    EXPECT_EQ(s.run({.layout = {.head_major = true, .row_gap = 5}, .tiles_per_call = 3}).o.data, whole.o.data);
    Trial twice = trial(pattern, square(333));
    twice.shape.batch = 2;
    for (auto* t : {&twice.q, &twice.k, &twice.v}) {
      ir::Tensor more = normal({2, 333, 2, 16}, 9);
      std::copy(t->data.begin(), t->data.end(), more.data.begin() + static_cast<std::ptrdiff_t>(t->data.size()));
      *t = std::move(more);
    }
    const ir::Outcome second = twice.run();
    const std::size_t half = whole.o.data.size();
    for (std::size_t i = 0; i < half; ++i) ASSERT_EQ(second.o.data[half + i], whole.o.data[i]);
  }
}

TEST_P(Rules, CausalOutputsDoNotSeeLaterTokens) {
  for (const auto& pattern : some_patterns()) {
    Trial s = trial(pattern, square(260));
    const ir::Outcome before = s.run();
    const std::int64_t t = 137;
    for (auto* tensor : {&s.q, &s.k, &s.v}) {
      for (std::int64_t c = 0; c < 16; ++c) tensor->at(0, t, 0, c) += 1.5;
    }
    const ir::Outcome after = s.run();
    for (std::int64_t q = 0; q < t; ++q) {
      for (std::int64_t c = 0; c < 16; ++c) ASSERT_EQ(after.o.at(0, q, 0, c), before.o.at(0, q, 0, c)) << q;
    }
    EXPECT_NE(after.o.at(0, t, 0, 0), before.o.at(0, t, 0, 0));
  }
}

TEST_P(Rules, WeightsSumToOne) {
  for (const auto& pattern : some_patterns()) {
    Trial s = trial(pattern, square(200));
    for (auto& v : s.v.data) v = 1;
    const ir::Outcome out = s.run();
    const double tolerance = s.dtype == ir::DType::f32 ? 2e-6 : s.dtype == ir::DType::f16 ? 1e-3 : 4e-3;
    for (std::int64_t q = 0; q < 200; ++q) {
      for (std::int64_t h = 0; h < 2; ++h) {
        const bool covered = std::isfinite(out.lse.data[static_cast<std::size_t>(h * 200 + q)]);
        EXPECT_NEAR(out.o.at(0, q, h, 0), covered ? 1.0 : 0.0, tolerance);
      }
    }
  }
}

TEST_P(Rules, HeadsDoNotMix) {
  Trial s = trial(some_patterns()[1], square(200));
  const ir::Outcome before = s.run();
  for (std::int64_t t = 0; t < 200; t += 2) s.k.at(0, t, 1, 0) += 1;
  const ir::Outcome after = s.run();
  for (std::int64_t q = 0; q < 200; ++q) ASSERT_EQ(after.o.at(0, q, 0, 0), before.o.at(0, q, 0, 0));
  EXPECT_NE(after.o.at(0, 150, 1, 0), before.o.at(0, 150, 1, 0));
}

TEST_P(Rules, AnLseOfZeroIsAnOrdinaryValue) {
  // One key, a score of 0: LSE is exactly 0 and the row is covered.
  Trial s = trial(of({make_set(SetKind::all)}), square(1));
  for (auto& q : s.q.data) q = 0;
  const ir::Outcome out = s.run();
  EXPECT_NEAR(out.lse.data[0], 0, 1e-7);
  EXPECT_NEAR(out.o.at(0, 0, 0, 2), s.v.at(0, 0, 0, 2), 1e-6);
}

TEST_P(Rules, RowsWithoutKeysAreZero) {
  const Trial s =
      trial(of({make_set(SetKind::difference,
                         std::vector<ir::SetPtr>{make_set(SetKind::causal), make_set(SetKind::window, {30, 0})})}),
            square(100));
  const ir::Outcome out = s.run();
  for (std::int64_t q = 0; q <= 30; ++q) {
    EXPECT_EQ(out.lse.data[static_cast<std::size_t>(q)], -kInfinity);
    for (std::int64_t c = 0; c < 16; ++c) EXPECT_EQ(out.o.at(0, q, 0, c), 0.0);
  }
  EXPECT_TRUE(std::isfinite(out.lse.data[31]));
}

TEST_P(Rules, HugeScoresStayExact) {
  // Scores up to ±1e4: the largest term decides, and nothing overflows.
  Trial s = trial(of({make_set(SetKind::causal)}), square(150));
  for (auto& q : s.q.data) q = rounded(q * 1500, s.dtype);
  const auto want = ir::interpret(s.pattern, s.shape, s.q, s.k, s.v, {});
  ASSERT_GT(want->max_abs_score, 5e3);
  const auto bounds = ir::error_bounds(s.pattern, s.dtype, 150, 5, want->max_abs_score);
  const ir::Outcome got = s.run();
  for (std::size_t i = 0; i < got.o.data.size(); ++i) ASSERT_NEAR(got.o.data[i], want->o.data[i], bounds.o);
  for (std::size_t i = 0; i < got.lse.data.size(); ++i) ASSERT_NEAR(got.lse.data[i], want->lse.data[i], bounds.lse);
}

TEST_P(Rules, PhasesWithCarriedState) {
  // Segments without a common measure: each branch has a row order and a phase of its own.
  const ir::Pattern pattern = of({dilated(1000, 1), dilated(3001, 4), dilated(3100, 5)});
  const Trial s = trial(pattern, square(1900, 3));
  ASSERT_GT(s.kernel.plan().phases.size(), 1U) << ir::print(s.kernel.plan());
  const auto want = ir::interpret(pattern, s.shape, s.q, s.k, s.v, {});
  const ir::Outcome got = s.run();
  const auto bounds = ir::error_bounds(pattern, s.dtype, 1900, 5, want->max_abs_score);
  for (std::size_t i = 0; i < got.o.data.size(); ++i) ASSERT_NEAR(got.o.data[i], want->o.data[i], bounds.o) << i;
  for (std::size_t i = 0; i < got.lse.data.size(); ++i)
    ASSERT_NEAR(got.lse.data[i], want->lse.data[i], bounds.lse) << i;
}

TEST(CpuText, DoesNotDependOnTheNumberOfBranchesOrLengths) {
  const Target target = host_target();
  const auto text = [&](const ir::Pattern& p) {
    const auto plan = planner::plan(p, {.d = 64, .d_v = 64}, target);
    EXPECT_TRUE(plan.ok());
    return codegen::cpu::emit(*plan, target).text;
  };
  const std::string three = text(of({dilated(2048, 1), dilated(4096, 2), dilated(8192, 4)}));
  EXPECT_TRUE(three == text(of({dilated(512, 1), dilated(1024, 2)})));
  // Where branches are counted, pairs have weights; one branch keeps each pair once.
  const std::string one = text(of({make_set(SetKind::causal)}));
  EXPECT_TRUE(one == text(of({dilated(512, 2)})));
  EXPECT_FALSE(one == three);
}

const ir::ExprPtr q = ir::variable(ir::Variable::q), key = ir::variable(ir::Variable::k);

/// Where x % of == 1.
ir::SetPtr where_one_is_left(const ir::ExprPtr& x, std::int64_t of) {
  const auto rest = ir::apply(ir::Op::modulo, {x, ir::constant(of)});
  return ir::make_where(ir::apply(ir::Op::equal, {rest, ir::constant(1)}));
}

/// What is the same in another pattern's kernel need not be compiled again.
TEST(CpuText, SharesMostPartsWithOtherPatterns) {
  const Target target = find_target("cpu:x86-64-v4").value();
  const auto parts = [&](std::vector<ir::SetPtr> sets) {
    const auto plan = planner::plan(of(std::move(sets)), {.d = 64, .d_v = 64}, target);
    EXPECT_TRUE(plan.ok());
    return llvm::split(codegen::cpu::emit(*plan, target).text);
  };
  const auto shared = [](const std::vector<std::string>& a, const std::vector<std::string>& b) {
    std::size_t same = 0, all = 0;
    for (const auto& part : a) {
      all += part.size();
      if (std::find(b.begin(), b.end(), part) != b.end()) same += part.size();
    }
    return static_cast<double>(same) / static_cast<double>(all);
  };
  const auto product = ir::apply(ir::Op::multiply, {q, key});
  const auto causal = parts({make_set(SetKind::causal)});
  const auto products = parts({where_one_is_left(product, 7)});
  const auto sums = parts({where_one_is_left(ir::apply(ir::Op::add, {product, key}), 5)});
  EXPECT_GE(shared(products, causal), 0.5);
  EXPECT_GE(shared(products, sums), 0.85);
  EXPECT_GE(shared(parts({dilated(512, 1), dilated(1024, 2)}), causal), 0.5);
}

/// LLVM compiles what nothing calls as well.
TEST(CpuText, HasNoFunctionThatNothingCalls) {
  const std::vector<ir::SetPtr> sets = {make_set(SetKind::causal), dilated(512, 2), where_one_is_left(q, 3),
                                        where_one_is_left(ir::apply(ir::Op::multiply, {q, key}), 7)};
  for (const auto& set : sets) {
    const Target target = find_target("cpu:x86-64-v4").value();
    const auto plan = planner::plan(of({set}), {.d = 64, .d_v = 64}, target);
    ASSERT_TRUE(plan.ok());
    const std::string text = codegen::cpu::emit(*plan, target).text;
    const std::string head = "\ndefine internal ";
    for (std::size_t at = text.find(head); at != text.npos; at = text.find(head, at + 1)) {
      const std::size_t name = text.find('@', at), end = text.find('(', name) + 1;
      const std::string called = text.substr(name, end - name),
                        handed_over = text.substr(name, end - 1 - name) + ", ptr";
      EXPECT_TRUE(text.find(called) < name || text.find(called, end) != text.npos ||
                  text.find(handed_over) != text.npos)
          << called;
    }
  }
}

TEST(CpuText, HasNoUndefinedSymbols) {
  const auto library = llvm::Library::open();
  ASSERT_TRUE(library.ok()) << library.error().message;
  for (const char* name : {"cpu:x86-64", "cpu:x86-64-v3", "cpu:x86-64-v4"}) {
    const Target target = find_target(name).value();
    for (auto dtype : {ir::DType::f32, ir::DType::f16, ir::DType::bf16}) {
      const auto plan = planner::plan(of({make_set(SetKind::causal)}), {.d = 64, .d_v = 64, .dtype = dtype}, target);
      const auto bytes = llvm::compile(**library, codegen::cpu::emit(*plan, target).text, target);
      ASSERT_TRUE(bytes.ok()) << bytes.error().message;
      const auto undefined = object::undefined_symbols(*bytes);
      ASSERT_TRUE(undefined.ok());
      EXPECT_TRUE(undefined->empty()) << name << ": " << undefined->front();
    }
  }
}

}  // namespace
}  // namespace weft::testing
