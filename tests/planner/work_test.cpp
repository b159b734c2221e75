#include "compiler/planner/analysis.h"
#include "compiler/planner/planner.h"

#include <gtest/gtest.h>

#include <chrono>

/// How much work plans do, and how little planning depends on lengths.
namespace weft::planner {
namespace {

using ir::make_set;
using ir::SetKind;

struct Branches {
  std::vector<std::int64_t> segments, rates;
};

ir::Pattern dilated(const Branches& b, bool causal) {
  ir::Pattern p;
  p.name = "dilated";
  for (std::size_t i = 0; i < b.segments.size(); ++i) {
    const auto phase = ir::apply(ir::Op::modulo, {ir::variable(ir::Variable::h), ir::constant(b.rates[i])});
    ir::SetPtr set = ir::make_dilated(b.segments[i], b.rates[i], phase, false);
    if (causal) set = make_set(SetKind::intersection, std::vector<ir::SetPtr>{set, make_set(SetKind::causal)});
    p.branches.push_back({.set = set, .heads = {}, .range = {}});
  }
  return p;
}

ir::Pattern one(ir::SetPtr set) {
  ir::Pattern p;
  p.name = "one";
  p.branches.push_back({.set = std::move(set), .heads = {}, .range = {}});
  return p;
}

ir::Plan planned(const ir::Pattern& pattern, const char* target = "cpu:x86-64-v4") {
  auto made = plan(pattern, {.d = 64, .d_v = 64}, find_target(target).value());
  EXPECT_TRUE(made.ok()) << made.error().message;
  return std::move(*made);
}

ir::Shape square(std::int64_t n, std::int64_t heads) {
  return {.batch = 1, .n_q = n, .n_k = n, .heads = heads, .kv_heads = heads, .d = 64, .d_v = 64};
}

double ratio(const ir::Pattern& pattern, const ir::Shape& shape, const char* target = "cpu:x86-64-v4") {
  const ir::Plan p = planned(pattern, target);
  const auto tables = ir::make_tables(p, shape.heads);
  EXPECT_TRUE(tables.ok());
  const Work work = count_work(p, *tables, shape, {});
  const double r = work.executed / work.pairs;
  std::printf("  n %ld: executed / useful %.3f, %zu phases\n", shape.n_q, r, p.phases.size());
  return r;
}

double ratio(const ir::Pattern& pattern, std::int64_t n, std::int64_t heads) {
  return ratio(pattern, square(n, heads));
}

const Branches kLongnet3{{2048, 4096, 8192}, {1, 2, 4}};
const Branches kLongnet5{{2048, 4096, 8192, 16384, 32768}, {1, 2, 4, 6, 12}};
const Branches kPrimes{{2048, 4096, 8192, 16384, 32768}, {1, 3, 5, 7, 11}};

TEST(Work, ExecutedOverUseful) {
  for (std::int64_t n : {std::int64_t{8192}, std::int64_t{16384}, std::int64_t{1} << 20}) {
    EXPECT_LE(ratio(dilated(kLongnet3, false), n, 8), 0.80);
    EXPECT_LE(ratio(dilated(kLongnet3, true), n, 8), 0.88);
  }
  EXPECT_LE(ratio(dilated(kLongnet5, true), 32768, 12), 0.90);
  EXPECT_LE(ratio(dilated(kLongnet5, true), 1 << 20, 12), 0.90);
  EXPECT_LE(ratio(one(make_set(SetKind::window, {511, 0})), 16384, 1), 1.05);
  EXPECT_LE(ratio(one(make_set(SetKind::causal)), 4096, 1), 1.02);
  EXPECT_LE(ratio(dilated(kPrimes, false), 32768, 8), 1.9);
  EXPECT_LE(ratio(dilated(kPrimes, true), 32768, 8), 1.9);
}

/// Vectors of 16 rows; up to four queries, scores of four rows at a time and outputs of two. Heads that share K and V
/// stand in one tile unless something tells them apart.
TEST(Work, OfFewRows) {
  const auto few = [](const ir::Pattern& pattern, std::int64_t n_q, std::int64_t group,
                      const char* target = "cpu:x86-64-v4") {
    ir::Shape shape = square(1024, 2 * group);
    shape.kv_heads = 2;
    shape.n_q = n_q;
    return ratio(pattern, shape, target);
  };
  const auto all = one(make_set(SetKind::all));
  EXPECT_DOUBLE_EQ(few(all, 1, 4), 1);
  EXPECT_DOUBLE_EQ(few(all, 1, 1), (4 + 2) / 2.0);
  EXPECT_DOUBLE_EQ(few(all, 3, 1), (4 + 4) / 2.0 / 3);
  EXPECT_DOUBLE_EQ(few(all, 1, 3), (4 + 4) / 2.0 / 3);
  EXPECT_DOUBLE_EQ(few(all, 5, 1), 16 / 5.0);
  EXPECT_DOUBLE_EQ(few(all, 8, 4), 1);
  EXPECT_DOUBLE_EQ(few(all, 64, 4), 1) << "no room for more than one head";
  ir::Pattern by_head = all;
  const auto head = ir::apply(ir::Op::to_real, {ir::variable(ir::Variable::h)});
  by_head.score = ir::apply(ir::Op::add, {ir::variable(ir::Variable::s), head});
  EXPECT_DOUBLE_EQ(few(by_head, 1, 4), 3);
  // On GPUs a warp computes all of its rows.
  EXPECT_DOUBLE_EQ(few(all, 1, 8, "sm_61"), 32 / 8.0);
  EXPECT_DOUBLE_EQ(few(all, 1, 1, "sm_61"), 32);
  EXPECT_DOUBLE_EQ(few(by_head, 1, 8, "sm_61"), 32);
  // A condition on pairs, which one position turns into a filter of keys: up to whole groups of keys, as above.
  const auto k = ir::variable(ir::Variable::k), q = ir::variable(ir::Variable::q);
  const auto sum = ir::apply(ir::Op::add, {q, ir::apply(ir::Op::multiply, {k, k})});
  const auto pairs = one(ir::make_where(
      ir::apply(ir::Op::not_equal, {ir::apply(ir::Op::modulo, {sum, ir::constant(3)}), ir::constant(0)})));
  EXPECT_DOUBLE_EQ(3 * few(pairs, 1, 4), few(pairs, 1, 1));
}

TEST(Work, SegmentsWithoutACommonMeasure) {
  // gcd 1: no cell serves both branches, so that each gets a phase of its own.
  EXPECT_LE(ratio(dilated({{1000, 1537, 4097}, {1, 2, 4}}, true), 16384, 4), 1.3);
}

TEST(Work, LengthsAreNowhereInAPlan) {
  // A plan is made without sizes; this walks it at 2^40 tokens, in time and memory that do not know it.
  for (const auto& branches : {kLongnet3, kLongnet5, kPrimes}) {
    const ir::Plan p = planned(dilated(branches, true));
    const auto tables = ir::make_tables(p, 8);
    ASSERT_TRUE(tables.ok());
    const std::vector<ir::Tensor> inputs;
    const ir::Extent extent =
        ir::extent_of(square(std::int64_t{1} << 40, 8), 0, ir::Stationary::query, &inputs, &*tables);
    const auto begin = std::chrono::steady_clock::now();
    ir::TileRows rows;
    std::vector<ir::Zone> zones;
    std::size_t most = 0;
    for (std::size_t f = 0; f < p.phases.size(); ++f) {
      const ir::HeadTable& head = tables->phases[f].of(3);
      const std::int64_t tiles = ir::tile_count(p.phases[f], head, extent);
      EXPECT_GT(tiles, std::int64_t{1} << 33);
      for (std::int64_t i = 0; i < 1000; ++i) {
        ir::rows_of_tile(p.phases[f], head, extent, tiles / 1000 * i, rows);
        for (const auto& pass : head.passes) {
          ir::zones_of_tile(pass, rows, extent, zones);
          most = std::max(most, zones.size());
        }
      }
    }
    EXPECT_LE(most, 4 * branches.rates.size() + 1);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
  }
}

TEST(Work, PlanSizeFollowsTheText) {
  // Segments of 2^41 tokens: a few digits more, and tables as small as before.
  Branches longer = kLongnet3;
  for (auto& w : longer.segments) w <<= 30;
  const ir::Plan p = planned(dilated(longer, true));
  EXPECT_LT(ir::print(p).size(), 4096U);
  const auto tables = ir::make_tables(p, 8);
  ASSERT_TRUE(tables.ok());
  for (const auto& cell : tables->phases[0].cell_tables) EXPECT_LE(cell.classes.size(), 4U);
}

TEST(Work, MoreThanAPlanHoldsIsTheUsersToKnow) {
  std::vector<ir::SetPtr> drawn;
  for (std::int64_t seed = 0; seed < 5; ++seed) drawn.push_back(ir::make_set(SetKind::random, {3, seed}));
  const auto made = plan(one(ir::make_set(SetKind::unite, drawn)), {.d = 64, .d_v = 64},
                         find_target("cpu:x86-64-v4").value(), {.for_kernels = false});
  ASSERT_FALSE(made.ok());
  ASSERT_EQ(made.error().diagnostics.size(), 1U);
  EXPECT_EQ(made.error().diagnostics[0].code, "E0405");
}

TEST(Work, RefusalsNameTheConstruct) {
  ir::Pattern p = one(ir::make_input_set(SetKind::lengths, 0));
  ir::Input& input = p.inputs.emplace_back();
  input.name = "ends";
  input.axes = {{ir::Axis::Kind::tokens, 0}};
  input.range = {7, 12};
  const auto made = plan(p, {.d = 64, .d_v = 64}, find_target("cpu:x86-64-v4").value());
  ASSERT_FALSE(made.ok());
  ASSERT_EQ(made.error().diagnostics.size(), 1U);
  EXPECT_EQ(made.error().diagnostics[0].code, "E0404");
  EXPECT_EQ(made.error().diagnostics[0].range, (SourceRange{7, 12}));
  EXPECT_NE(made.error().diagnostics[0].message.find("ends"), std::string::npos);

  for (const auto& [target, d] : {std::pair("cpu:x86-64-v4", 257), {"sm_61", 264}}) {
    const auto odd = plan(one(make_set(SetKind::all)), {.d = d, .d_v = 64}, find_target(target).value());
    ASSERT_FALSE(odd.ok());
    EXPECT_EQ(odd.error().diagnostics[0].code, "E0408");
  }
}

TEST(Work, BranchesThatGpusCannotCount) {
  ir::Pattern p = one(make_set(SetKind::all));
  p.branches.resize(255, p.branches[0]);
  const ir::Bind bind{.d = 64, .d_v = 64};
  EXPECT_TRUE(plan(p, bind, find_target("sm_61").value()).ok());
  p.branches.push_back(p.branches[0]);
  p.branches.back().range = {3, 9};
  EXPECT_TRUE(plan(p, bind, find_target("cpu:x86-64-v4").value()).ok());
  for (const char* target : {"sm_61", "sm_80"}) {
    const auto made = plan(p, bind, find_target(target).value());
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().diagnostics[0].code, "E0409");
    EXPECT_EQ(made.error().diagnostics[0].range, (SourceRange{3, 9}));
    EXPECT_NE(made.error().message.find("255"), std::string::npos) << made.error().message;
  }
}

TEST(Work, ScoresThatTakeGpusMinutesToCompile) {
  ir::Pattern p = one(make_set(SetKind::all));
  p.name_range = {8, 9};
  const auto s = ir::variable(ir::Variable::s);
  const auto of_terms = [&](int terms) {  // two operations each but for the first
    ir::ExprPtr sum = ir::apply(ir::Op::multiply, {s, ir::constant_real(1)});
    for (int i = 1; i < terms; ++i)
      sum = ir::apply(ir::Op::add, {sum, ir::apply(ir::Op::multiply, {s, ir::constant_real(i + 1)})});
    return sum;
  };
  const ir::Bind bind{.d = 64, .d_v = 64};
  p.score = of_terms(2048);
  EXPECT_TRUE(plan(p, bind, find_target("sm_61").value()).ok());
  p.score = of_terms(2049);
  for (const char* target : {"sm_61", "sm_80"}) {
    const auto made = plan(p, bind, find_target(target).value());
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().diagnostics[0].code, "E0410");
    EXPECT_EQ(made.error().diagnostics[0].range, p.name_range);
    EXPECT_NE(made.error().message.find("4097"), std::string::npos) << made.error().message;
  }
  EXPECT_TRUE(plan(p, bind, find_target("cpu:x86-64-v4").value()).ok());
  // What is shared counts once.
  p.score = of_terms(1500);
  p.score = ir::apply(ir::Op::add, {p.score, p.score});
  EXPECT_TRUE(plan(p, bind, find_target("sm_61").value()).ok());
}

}  // namespace
}  // namespace weft::planner
