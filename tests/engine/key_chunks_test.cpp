#include "compiler/ir/key_chunks.h"
#include "compiler/base/float16.h"
#include "compiler/target/target.h"
#include "runtime/engine/front.h"
#include "tests/engine/problem.h"
#include "tests/support/effort.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

/// Few rows with many keys on GPUs: heads that share K and V stand in one tile, and chunks of the keys are merged by
/// another kernel.
namespace weft::test {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 6, kKvHeads = 2, kDim = 40;

std::vector<std::uint16_t> halves(std::int64_t count, std::uint32_t seed) {
  std::vector<std::uint16_t> out;
  for (float x : numbers(count, seed)) out.push_back(float_to_half(x));
  return out;
}

struct Case {
  const char* target;
  std::int64_t n_q, n_k;
};

class KeyChunks : public ::testing::TestWithParam<Case> {};

struct Pattern {
  const char* text;
  std::int64_t branch_lses = 0;
  bool lse = true;
};

struct Results {
  std::vector<float> out, lse, branch_lse;
  std::string plan;
};

/// Entries [first, first + batch) of the problem.
Results run(const std::string& target, const Pattern& pattern, const Case& c, std::int64_t first, std::int64_t batch) {
  const Engine engine({.no_cache = true});
  const RunShape shape{.batch = batch, .n_q = c.n_q, .n_k = c.n_k, .heads = kHeads, .kv_heads = kKvHeads};
  const auto kernel = engine.compile(
      pattern.text,
      {.dim = kDim, .dtype = DType::f16, .branch_lse = pattern.branch_lses > 0, .shape = shape, .target = target});
  EXPECT_TRUE(kernel.ok()) << (kernel.ok() ? "" : kernel.error().message);
  const auto rows = c.n_q * kHeads * kDim, keys = c.n_k * kKvHeads * kDim;
  const auto q = halves(kBatch * rows, 1), k = halves(kBatch * keys, 2), v = halves(kBatch * keys, 3);
  std::vector<std::uint16_t> out(static_cast<std::size_t>(batch * rows), 0x7FFF);
  Results results;
  if (pattern.lse) results.lse.assign(static_cast<std::size_t>(batch * kHeads * c.n_q), -7);
  results.branch_lse.assign(static_cast<std::size_t>(pattern.branch_lses * batch * kHeads * c.n_q), -7);
  RunArgs args = {.q = dense_view(q.data() + first * rows, DType::f16, {batch, c.n_q, kHeads, kDim}),
                  .k = dense_view(k.data() + first * keys, DType::f16, {batch, c.n_k, kKvHeads, kDim}),
                  .v = dense_view(v.data() + first * keys, DType::f16, {batch, c.n_k, kKvHeads, kDim}),
                  .out = dense_output(out.data(), DType::f16, {batch, c.n_q, kHeads, kDim})};
  if (pattern.lse) args.lse = dense_output(results.lse.data(), DType::f32, {batch, kHeads, c.n_q});
  if (pattern.branch_lses > 0)
    args.branch_lse = dense_output(results.branch_lse.data(), DType::f32, {pattern.branch_lses, batch, kHeads, c.n_q});
  const auto status = kernel->run(args);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
  for (auto bits : out) results.out.push_back(half_to_float(bits));
  results.plan = kernel->plan_text();
  return results;
}

/// The window's rows keep nothing of the first chunks, the sinks' nothing of those between.
constexpr Pattern kPatterns[] = {
    {"pattern p { keep causal; }"},
    {"pattern p { branch window(200, 0) | global(3); keep causal; score softcap(s, 5); }"},
    {"pattern p { branches dilated(segments: [512, 8192], rates: [1, 2]); combine mean; keep causal; }", 2, false},
    {"pattern p { branch global(5); branch causal; branch window(300, 0); keep causal; combine sum; }", 3, false},
    {"pattern p { branch window(300, 0); branch global(5); keep causal; }", 2},
    {"pattern p { branch window(300, 0); branch global(5); keep causal; sink_logit 3 + h; }"},
    {"pattern p { branch window(900, 0); branch global(5); keep causal; weights sigmoid(s - 4); }", 0, false},
};

TEST_P(KeyChunks, AreAllThatARowKeeps) {
  const Case& c = GetParam();
  std::size_t number = c.n_q == 1 ? 0 : 1;
  for (const Pattern& pattern : kPatterns) {
    if (!takes_turn_on(c.target, number++)) continue;
    const auto got = run(c.target, pattern, c, 0, kBatch), want = run("interpreter", pattern, c, 0, kBatch);
    const auto plan = ir::parse_plan(got.plan);
    ASSERT_TRUE(plan.ok());
    EXPECT_GT(ir::key_chunks(*plan, {.batch = kBatch, .n_q = c.n_q, .n_k = c.n_k, .heads = kHeads}, 0).count, 1);
    EXPECT_LT(largest_difference(got.out, want.out), 1e-3) << pattern.text;
    EXPECT_LT(largest_difference(got.lse, want.lse), 1e-4) << pattern.text;
    EXPECT_LT(largest_difference(got.branch_lse, want.branch_lse), 1e-4) << pattern.text;
  }
}

TEST_P(KeyChunks, HaveTheSameBitsInAnyBatch) {
  const Case& c = GetParam();
  for (const Pattern& pattern : {kPatterns[0], kPatterns[2]}) {
    const auto together = run(c.target, pattern, c, 0, kBatch), alone = run(c.target, pattern, c, 1, 1);
    EXPECT_TRUE(std::equal(alone.out.begin(), alone.out.end(), together.out.end() - std::ssize(alone.out)));
    EXPECT_TRUE(std::equal(alone.lse.begin(), alone.lse.end(), together.lse.end() - std::ssize(alone.lse)));
  }
}

INSTANTIATE_TEST_SUITE_P(FewRows, KeyChunks,
                         ::testing::Values(Case{"emulate:sm_61", 1, 1700}, Case{"emulate:sm_80", 1, 1700},
                                           Case{"emulate:sm_61", 40, 4300}, Case{"emulate:sm_80", 40, 4300}),
                         [](const auto& of) {
                           return fmt::format("{}_{}", std::string(of.param.target).substr(8), of.param.n_q);
                         });

// ---------------------------------------------------------------- how keys are cut

ir::Plan plan_of(const std::string& text, int chunk) {
  const CompileOptions options{.dim = 64, .dtype = DType::f32};
  auto front = read_pattern({.name = "p", .text = text}, options).value();
  auto plan = plan_pattern(std::move(front), options, find_target("sm_61").value()).value().plan;
  for (std::size_t i = 0; i < plan.cuts.size(); ++i) plan.cuts[i].keys = (i == 0 ? 1 : 4) * chunk;
  return plan;
}

TEST(CutKeys, CoverWhatRowsMayKeepInWholeBlocks) {
  const auto plan = plan_of("pattern p { keep window(999, 0); }", 64);
  for (std::int64_t n_q : {1, 16, 17, 100}) {
    for (std::int64_t at : {0, 63, 500, 1500, 90'000}) {
      const ir::Shape shape{.batch = 1, .n_q = n_q, .n_k = 100'000, .offset = {at}};
      const auto chunks = ir::key_chunks(plan, shape, 0);
      const auto first = std::max<std::int64_t>(0, at - 999), end = at + n_q;
      EXPECT_LE(chunks.count, ir::most_key_chunks(plan, n_q, shape.n_k));
      if (chunks.count == 1) {
        EXPECT_EQ(chunks.first, 0);
        EXPECT_EQ(chunks.keys, shape.n_k);
        continue;
      }
      EXPECT_EQ(chunks.first, first);
      EXPECT_EQ(chunks.keys % plan.choices.tile_k, 0);
      EXPECT_GE(chunks.first + chunks.count * chunks.keys, end);
      EXPECT_LT(chunks.first + (chunks.count - 1) * chunks.keys, end) << "the last one is empty";
    }
  }
  const ir::Shape far{.batch = 1, .n_q = 1, .n_k = 100'000, .offset = {90'000}};
  EXPECT_GT(ir::key_chunks(plan, far, 0).count, 5);
}

TEST(CutKeys, SegmentsBeginAtMultiplesOnBothSidesOfZero) {
  const auto plan = plan_of("pattern p { keep segment(4096); }", 64);
  const auto of_row = [&](std::int64_t at) {
    return ir::key_chunks(plan, {.batch = 1, .n_q = 1, .n_k = 100'000, .offset = {at}}, 0);
  };
  EXPECT_EQ(of_row(4095).first, 0);
  EXPECT_GT(of_row(4095).count, 1);
  EXPECT_EQ(of_row(4096).first, 4096);
  EXPECT_GT(of_row(0).count, 1);
  EXPECT_EQ(of_row(-1).count, 1) << "its segment ends before key 0";
  EXPECT_EQ(of_row(-4096).count, 1);
}

TEST(CutKeys, ManyRowsKeepThemWhole) {
  const auto plan = plan_of("pattern p { }", 512);
  const auto count = [&](std::int64_t n_q, std::int64_t n_k) {
    return ir::key_chunks(plan, {.batch = 1, .n_q = n_q, .n_k = n_k}, 0).count;
  };
  EXPECT_EQ(count(1, 1023), 1);
  EXPECT_EQ(count(1, 1024), 2);
  EXPECT_EQ(count(1, 1 << 20), 64);
  EXPECT_EQ(count(17, 4095), 1) << "more rows are more to merge";
  EXPECT_EQ(count(17, 4096), 2);
  EXPECT_EQ(count(2 * plan.choices.tile_q, 1 << 20), 32);
  EXPECT_EQ(count(2 * plan.choices.tile_q + 1, 1 << 20), 1);
}

TEST(CutKeys, FewerTheMoreSoftmaxes) {
  const auto most = [](int branches) {
    std::string text = "pattern p { combine sum; ";
    for (int i = 0; i < branches; ++i) text += fmt::format("branch window({}, 0); ", i + 1);
    return ir::most_key_chunks(plan_of(text + "}", 512), 1, std::int64_t{1} << 20);
  };
  EXPECT_EQ(most(2), 64);
  EXPECT_EQ(most(5), 25);
  EXPECT_EQ(most(64), 2);
  EXPECT_EQ(most(65), 1);
}

TEST(CutKeys, OnlyInOneLaunch) {
  EXPECT_TRUE(plan_of("pattern p { keep causal; }", 512).may_cut_keys());
  EXPECT_TRUE(
      plan_of("pattern p { branches dilated(segments: [64, 128], rates: [1, 2]); combine sum; }", 512).may_cut_keys());
  EXPECT_FALSE(plan_of("pattern p { branches dilated(segments: [512, 4096], rates: [8, 7]); }", 512).may_cut_keys());
}

}  // namespace
}  // namespace weft::test
