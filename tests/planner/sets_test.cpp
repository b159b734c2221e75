#include "compiler/ir/lower.h"
#include "compiler/planner/analysis.h"
#include "dsl/parse.h"
#include "tests/planner/coverage.h"
#include "tests/support/random_numbers.h"
#include "tests/support/shipped.h"

#include <gtest/gtest.h>

#include <algorithm>

/// Every kind of set that is planned by conditions on pairs or by bounds that a row gives, as a user writes it.
namespace weft::planner {
namespace {

struct Case {
  const char* body;
  std::int64_t tokens = 0;  ///< 0: several lengths
};

ir::Pattern pattern_of(const std::string& body) {
  const Source source{"input.weft", "pattern p { " + body + " }"};
  const auto file = dsl::parse(source);
  EXPECT_TRUE(file.ok()) << body;
  auto pattern = ir::lower(*file, "p", {});
  EXPECT_TRUE(pattern.ok()) << body << ": " << (pattern.ok() ? "" : pattern.error().diagnostics.front().message);
  return std::move(*pattern);
}

std::int64_t extent(const ir::Axis& axis, const ir::Input& input, const ir::Shape& s) {
  switch (axis.kind) {
    case ir::Axis::Kind::batch:
      return s.batch;
    case ir::Axis::Kind::heads:
      return s.heads;
    case ir::Axis::Kind::queries:
      return s.n_q;
    case ir::Axis::Kind::keys:
    case ir::Axis::Kind::tokens:
      return s.n_k;
    case ir::Axis::Kind::blocks:
      return (s.n_k + input.block - 1) / input.block;
    case ir::Axis::Kind::extent:
      return axis.extent;
  }
  return 1;
}

/// Documents ascend, lengths lie inside, tables keep a third.
RandomProblem problem_of(const ir::Pattern& pattern, ir::Shape shape, std::uint64_t seed) {
  RandomProblem problem{pattern, std::move(shape), {}};
  test::RandomNumbers random(seed);
  for (const auto& input : pattern.inputs) {
    std::vector<std::int64_t> extents;
    for (const auto& axis : input.axes) extents.push_back(extent(axis, input, problem.shape));
    ir::Tensor t(extents);
    double document = 0;
    for (auto& value : t.data) {
      document += random.one_in(9) ? 1 : 0;
      if (input.type == ir::InputType::u8) value = random.one_in(3) ? 1 : 0;
      if (input.type == ir::InputType::f32) value = random.normal();
      if (input.type == ir::InputType::i32) {
        value = input.axes.size() > 1 ? document : static_cast<double>(random.between(0, problem.shape.n_k));
      }
    }
    problem.inputs.push_back(std::move(t));
  }
  return problem;
}

std::string wrong(const Case& c, ir::Stationary stationary, const Target& on = target()) {
  const ir::Pattern pattern = pattern_of(c.body);
  if (const auto made = plan(pattern, bind_of(), on, options(stationary)); !made.ok()) return "it is refused";
  const bool square = c.tokens > 0 || std::string(c.body).find("neighborhood") != std::string::npos;
  std::vector<std::int64_t> lengths{1, 7, 63, 65, 130, 200};
  if (c.tokens > 0) lengths = {c.tokens};
  for (const std::int64_t n : lengths) {
    if (square && n < 60) continue;
    for (const std::int64_t n_q : {n, std::max<std::int64_t>(1, n / 2)}) {
      if (square && n_q != n) continue;
      ir::Shape shape{.batch = 2, .n_q = n_q, .n_k = n, .heads = 3, .kv_heads = 1, .d = 8, .d_v = 8};
      const RandomProblem problem = problem_of(pattern, shape, static_cast<std::uint64_t>(n));
      if (auto said = check(problem, stationary, on); !said.empty()) return std::to_string(n) + " tokens: " + said;
    }
  }
  return "";
}

constexpr Case kCases[] = {
    {"keep lag(5);"},
    {"keep lag(64) & causal;"},
    {"keep !lag(3) & window(9, 9);"},
    {"branch window(20, 0); branch lag(8); combine union; keep causal;"},
    {"keep blocks(16, window(1, 1));"},
    {"keep blocks(16, causal) & window(40, 3);"},
    {"keep blocks(8, segment(2));"},
    {"keep blocks(4, dilated(segment: 6, rate: 2, phase: h % 2));"},
    {"keep blocks(4, strided(3, phase: 1)) & causal;"},
    {"keep blocks(16, lag(2) | global(1));"},
    {"keep blocks(8, blocks(2, window(0, 0)) | sink(1));"},
    {"keep !blocks(8, window(1, 0));"},
    {"input doc: i32[batch, tokens]; keep causal & document(doc);"},
    {"input doc: i32[tokens]; keep document(doc) - window(2, 2);"},
    {"input doc: i32[batch, blocks]; keep blocks(16, document(doc));"},
    {"input mask: u8[batch, heads, blocks, blocks]; branch blocks(16, table(mask)); keep causal;"},
    {"input mask: u8[heads, blocks, blocks]; branch blocks(8, !table(mask));"},
    {"input mask: u8[queries, keys]; keep table(mask);"},
    {"input t: i32[batch]; keep blocks(4, lengths(t));"},
    {"branch neighborhood(size: 7);"},
    {"branch neighborhood(size: 6, dilation: 3);"},
    {"branch neighborhood(size: 9, dilation: 2, stride: 4);"},
    {"branch neighborhood(size: 5, dilation: 2, causal: true);"},
    {"branch neighborhood(size: 12, stride: 5, causal: true) | sink(2);"},
    {"grid 12, 16; branch neighborhood(size: [5, 7]);", 192},
    {"grid 12, 16; branch neighborhood(size: [3, 5], dilation: [2, 3], stride: [2, 1], causal: [true, false]);", 192},
    {"grid 4, 6, 8; branch neighborhood(size: [3, 3, 5], dilation: [1, 2, 1]);", 192},
    {"grid 21, 30; branch neighborhood(size: [5, 7], dilation: [3, 2]);", 630},
    {"grid 24, 16; branch neighborhood(size: [7, 3], dilation: [2, 3]) | sink(2);", 384},
    {"grid 9, 10, 11; branch neighborhood(size: [3, 3, 3], dilation: [3, 2, 2]);", 990},
    {"grid 12, 16; branch axial;", 192},
    {"grid 4, 6, 8; branch axial; keep !window(1, 1);", 192},
    {"keep where(0 <= q - k < 25);"},
    {"keep where((q - k) % 7 == 0) & causal;"},
    {"keep where((q + k) % 7 == 3);"},
    {"keep where((k - q + 2) % 6 != 1);"},
    {"keep where(k % 4 == 3 and q >= k);"},
    {"keep where(q % 4 == 1 or k / 8 == q / 8);"},
    {"keep where(abs(q - k) == 3 or abs(q - k) <= 1 or abs(k - q) > 40);"},
    {"keep where(any(r in [1, 2, 4]: abs(q - k) == r));"},
    {"keep where(q * k % 3 == 1);"},
    {"keep where(2 * q < k + 5 or k < 3 * q - 100);"},
    {"keep where(not (k < q / 2)) & causal;"},
    {"keep where(select(h == 1, k < 10, q - k < 4));"},
    {"keep where((h % 2 == 0) == (q > k));"},
    {"keep where(k < n_k / 2 and q + h < n_q);"},
    {"input far: i32[heads]; keep where(q - k <= far[h] % 40 and k <= q);"},
    {"input w: f32[batch, keys]; keep where(w[b, k] > 0.0);"},
    {"input w: f32[queries]; keep where(w[q] < 0.5) & causal;"},
    {"input t: i32[batch, tokens]; keep where(t[b, k] < t[b, q]);"},
    {"keep blocks(16, where(q == k or abs(q - k) == 1 or abs(q - k) == 4));"},
    {"branch blocks(8, window(2, 2) | (where(q % 4 == 0) & window(8, 8)) | where(q % 16 == 0));"},
    {"branch blocks(16, segment(4) | where(k % 4 == 3 and q >= k)); keep causal;"},
    {"branch blocks(4, where(n_q == n_k and k < n_k / 2));"},
    {"branch blocks(4, segment(4) | where(k % 4 == 3)); branch blocks(4, where(q % 4 == 3)); combine union;", 200},
    {"branch blocks(2, segment(8) | where(min(k / 8 * 8 + 7 - h, n_k - 1) == k)); keep causal;", 300},
    {"keep where(q / 5 % 7 in [1, 2, 6] and q - k < 40 or q / 5 % 7 == 0) & causal;"},
    {"keep random(5, seed: 3) & causal;"},
    {"keep blocks(16, random(3, seed: 7) | window(1, 1));"},
    {"keep blocks(8, global(1) | random(2, seed: 9)) - window(3, 3);"},
    {"input scores: f32[batch, heads, blocks, blocks]; branch blocks(16, top(2, by: input(scores))); keep causal;"},
    {"input scores: f32[batch, heads, blocks, blocks]; branch blocks(8, top(3, by: input(scores), causal: false));"},
    {"branch lag(3) on heads 0..2; branch where(k % 5 == q % 5); combine sum;"},
    {"branch lag(4); branch window(3, 3); branch blocks(8, lag(2)); combine joint;"},
    {"keep where(0 <= q - k < [4, 9, 70][h]);"},
    {"input w: i32[heads]; keep where(0 <= q - k < w[h]);"},
    {"input w: i32[batch, heads]; keep where(abs(q - k) <= w[b, h] % 30);"},
    {"keep where(0 <= q - k < select(h < 1, 5, select(h < 2, 30, 90)));"},
    {"keep where(q / [8, 16, 24][h] == k / [8, 16, 24][h]) & causal;"},
    {"keep blocks(4, where(q - k <= [1, 2, 5][h] and k <= q));"},
    {"keep blocks(8, where(q - [1, 0, 2][h] == k or k == h));"},
    {"keep where(2 * (q - k) < 33 + h and 3 * k <= 2 * q + 40);"},
    {"keep where(2 * k == q + 3 * h) | sink(1);"},
    {"keep where(max(q - 20, 8) <= k and k <= min(q, n_k - 3));"},
    {"keep where(k >= max(0, q - 30) or k < 5 * h) & where(k < max(q, 16));"},
    {"keep where(h % 2 == 0) & window(12, 0) | where(h % 2 == 1) & lag(8) & causal;"},
    {"keep where(h % 2 == 0 and q - k < 9 or h == 1 and (q - k) % 4 == 0) & causal;"},
    {"keep (window(30, 0) - where(h == 2)) & !where(h == 1 and k % 2 == 0);"},
    {"branch where(h in [0, 2]) & window(5, 5); branch where(h >= 1) & strided(3); combine union;"},
    {"branch where(h == 1); branch where(h != 1) & dilated(segment: 32, rate: 2, phase: h % 2); combine joint;"},
};

class Sets : public ::testing::TestWithParam<Case> {};

TEST_P(Sets, AreVisitedAsMeant) { EXPECT_EQ(wrong(GetParam(), ir::Stationary::query), "") << GetParam().body; }

TEST_P(Sets, AreVisitedAsMeantByKey) { EXPECT_EQ(wrong(GetParam(), ir::Stationary::key), "") << GetParam().body; }

/// Ranges are those of CPUs, orders of rows may be others.
TEST_P(Sets, AreVisitedAsMeantInOrdersOfGpus) {
  const Target gpu = find_target("sm_80").value();
  for (const auto stationary : {ir::Stationary::query, ir::Stationary::key}) {
    const auto made = plan(pattern_of(GetParam().body), bind_of(), gpu, options(stationary));
    ASSERT_TRUE(made.ok());
    const auto& phases = made->phases;
    const bool in_order = std::none_of(phases.begin(), phases.end(), [](const auto& p) { return p.rows.classes; });
    if (in_order) continue;
    EXPECT_EQ(wrong(GetParam(), stationary, gpu), "") << GetParam().body;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Sets, ::testing::ValuesIn(kCases));

Work work_of(const ir::Pattern& pattern, std::int64_t tokens, const char* on, std::int64_t heads,
             ir::Stationary stationary) {
  const auto made = plan(pattern, bind_of(), find_target(on).value(), options(stationary));
  EXPECT_TRUE(made.ok());
  const ir::Shape shape{
      .batch = 1, .n_q = tokens, .n_k = tokens, .heads = heads, .kv_heads = heads, .d = 64, .d_v = 64};
  const auto tables = ir::make_tables(*made, heads);
  return count_work(*made, *tables, shape, problem_of(pattern, shape, 1).inputs);
}

Work work_of(const std::string& body, std::int64_t tokens, const char* on, std::int64_t heads = 1) {
  return work_of(pattern_of(body), tokens, on, heads, ir::Stationary::query);
}

/// Executed over useful.
double waste(const std::string& body, std::int64_t tokens, const char* on, std::int64_t heads = 1) {
  const Work work = work_of(body, tokens, on, heads);
  return work.executed / work.pairs;
}

TEST(SetsCost, WhatTheyKeep) {
  const std::string strided_local =
      "branch window(127, 0); branch lag(64); combine union; keep causal; heads 1; dim 64; dtype f16;";
  for (const char* on : {"cpu:x86-64-v4", "sm_61"}) {
    // Plain GPU lanes skip 32 x 64 pairs at a time, vectors 16 x 8.
    const double coarse = std::string(on) == "sm_61" ? 0.14 : 0;
    EXPECT_LE(waste(strided_local, 16384, on), 1.3 + 1.5 * coarse) << on;
    EXPECT_LE(waste("keep lag(64) & causal;", 16384, on), 1.15 + 1.5 * coarse) << on;
    EXPECT_LE(waste("branch neighborhood(size: 129, dilation: 4);", 8192, on), 1.6 + 4 * coarse) << on;
    EXPECT_LE(waste("grid 64, 64; branch neighborhood(size: [13, 13]);", 4096, on), 3.2) << on;
    // A patch has tokens of one residue on each axis: as dense as if they were a grid of their own.
    EXPECT_LE(waste("grid 64, 64; branch neighborhood(size: [13, 13], dilation: 2);", 4096, on), 3.2) << on;
    EXPECT_LE(waste("grid 64, 64; branch neighborhood(size: [13, 13], dilation: [4, 3]);", 4096, on), 3.2) << on;
    if (std::string(on) != "sm_61") {
      // Vectors of 16 rows are squares of 4 x 4: (4 + 12)^2 keys of 13^2 inside of the grid, fewer at its borders.
      EXPECT_LE(waste("grid 64, 64; branch neighborhood(size: [13, 13]);", 4096, on), 1.41) << on;
      EXPECT_LE(waste("grid 64, 64; branch neighborhood(size: [13, 13], dilation: 2);", 4096, on), 1.32) << on;
    }
    // Written out, a set costs what its name costs.
    EXPECT_EQ(waste("keep where(0 <= q - k < 256);", 4096, on), waste("keep window(255, 0);", 4096, on)) << on;
    EXPECT_EQ(waste("keep where((q - k) % 64 == 0);", 4096, on), waste("keep lag(64);", 4096, on)) << on;
    EXPECT_EQ(waste("keep blocks(64, where(abs(q - k) <= 2));", 4096, on),
              waste("keep blocks(64, window(2, 2));", 4096, on))
        << on;
    EXPECT_LE(waste("input m: u8[blocks, blocks]; branch blocks(64, table(m));", 2048, on), 1.01) << on;
  }
}

/// Tiles of keys that walk over queries compute about what tiles of queries do, in every pattern that the project
/// ships.
TEST(SetsCost, KeysCostWhatQueriesCost) {
  int counted = 0;
  for (const char* folder : {"examples", "tests/patterns"}) {
    for (const auto& [file, pattern] : test::shipped_patterns(folder)) {
      std::int64_t cells = 1;
      for (std::int64_t axis : pattern.grid) cells *= axis;
      const std::int64_t tokens = pattern.grid.empty() ? 2048 : cells, heads = pattern.heads.value_or(2);
      const Work by_query = work_of(pattern, tokens, "sm_61", heads, ir::Stationary::query);
      const Work by_key = work_of(pattern, tokens, "sm_61", heads, ir::Stationary::key);
      EXPECT_LE(by_key.executed, 1.25 * by_query.executed) << file << ": " << pattern.name;
      ++counted;
    }
  }
  EXPECT_GE(counted, 60);
}

/// Pairs that are scanned are sampled in long sequences: what is kept of all pairs, and what is executed for it, are
/// known. Pieces that cut blocks of keys would count 1.1 to 1.2 times what is executed.
TEST(SetsCost, ScannedPairsAreSampled) {
  for (const std::int64_t tokens : {16384, 1 << 20}) {
    const double all = static_cast<double>(tokens) * static_cast<double>(tokens) / 2;
    // Rows that keep all keys and rows that keep some blocks of 16 stand in one tile.
    const Work blocks = work_of("branch where(k / 16 % 4 == 3); branch where(q / 16 % 4 == 3); combine union;", tokens,
                                "cpu:x86-64-v4");
    EXPECT_TRUE(blocks.sampled);
    EXPECT_NEAR(blocks.pairs / all, 2 * 7.0 / 16, 0.02) << tokens;
    EXPECT_NEAR(blocks.executed / blocks.pairs, 1, 0.04) << tokens;
    // Every group of keys has some that is kept.
    const Work products = work_of("keep causal & where(q * k % 3 != 0);", tokens, "cpu:x86-64-v4");
    EXPECT_TRUE(products.sampled);
    EXPECT_NEAR(products.pairs / all, 4.0 / 9, 0.02) << tokens;
    EXPECT_NEAR(products.executed / products.pairs, 9.0 / 4, 0.1) << tokens;
  }
}

/// What a head alone says, however it is written, costs what branches on heads cost.
TEST(SetsCost, HeadsOfTheirOwn) {
  constexpr std::int64_t kTokens = 8192, kHeads = 4;
  const char* const branches =
      "branch window(63, 0) on heads 0..1; branch window(255, 0) on heads 1..2;"
      "branch window(1023, 0) on heads 2..3; branch window(4095, 0) on heads 3..4;";
  const char* const written[] = {
      "keep where(0 <= q - k < [64, 256, 1024, 4096][h]);",
      "keep where(0 <= q - k < select(h < 2, select(h < 1, 64, 256), select(h == 2, 1024, 4096)));",
      "keep where(select(h == 0, q - k < 64, select(h == 1, q - k < 256, select(h == 2, q - k < 1024, q - k < 4096))))"
      " & causal;",
  };
  for (const char* on : {"cpu:x86-64-v4", "sm_61", "sm_80"}) {
    const Work wanted = work_of(branches, kTokens, on, kHeads);
    for (const char* body : written) {
      const Work found = work_of(body, kTokens, on, kHeads);
      EXPECT_EQ(found.pairs, wanted.pairs) << on << ": " << body;
      EXPECT_EQ(found.executed, wanted.executed) << on << ": " << body;
      EXPECT_EQ(found.listed_singly, wanted.listed_singly) << on << ": " << body;
    }
    // Segments, and heads that want another order of rows.
    EXPECT_LE(waste("keep where(q / [512, 1024][h] == k / [512, 1024][h]);", kTokens, on, 2), 1.01) << on;
    const char* const strided =
        "branch where(h % 2 == 0) & window(127, 0) | where(h % 2 == 1) & lag(128); keep causal;";
    EXPECT_LE(waste(strided, 16384, on, 8), std::string(on).starts_with("sm_") ? 1.8 : 1.6) << on;
  }
  // A number of the caller's bounds keys as one of the text does; here it is 8192 or less.
  const char* const given = "input w: i32[heads]; keep where(0 <= q - k < w[h]);";
  EXPECT_EQ(work_of(given, kTokens, "cpu:x86-64-v4", kHeads).listed_singly, 0);
  EXPECT_LE(waste(given, kTokens, "cpu:x86-64-v4", kHeads), 1.1);
}

/// Blocks with a mask, on CPUs: what is computed there, and how their keys are found.
TEST(SetsCost, MasksAndLists) {
  const auto work = [](const char* body) { return work_of(body, 256, "cpu:x86-64-v4"); };
  // Four tiles of 64 rows with a triangle each, of whose keys vector i of 16 rows computes the first 16 (i + 1). All
  // rows keep the first key, which goes with those in front of it, four at a time.
  const Work causal = work("keep causal;");
  EXPECT_EQ(causal.masked, 4 * 16 * (16 + 32 + 48 + 64));
  EXPECT_EQ(causal.executed, causal.masked + (4 + 68 + 132 + 196) * 64);
  EXPECT_EQ(causal.listed_in_runs, 4 * 63);
  EXPECT_EQ(causal.listed_singly, 0);
  EXPECT_EQ(work("keep all;").masked, 0);
  // Lines of a grid are runs of its keys; rows that disagree on what is no interval are asked about each key, as are
  // two branches in one zone.
  const Work grid = work("grid 16, 16; branch neighborhood(size: [5, 5]);");
  EXPECT_GT(grid.listed_in_runs, 0);
  EXPECT_EQ(grid.listed_singly, 0);
  EXPECT_EQ(grid.masked, grid.executed);
  EXPECT_EQ(work("keep where((q * k) % 7 == 1);").listed_in_runs, 0);
  EXPECT_EQ(work("keep where((q * k) % 7 == 1);").listed_singly, 4 * 256);
  EXPECT_GT(work("branch window(20, 0); branch window(0, 20); combine joint;").listed_singly, 0);
  EXPECT_EQ(work("keep causal;").scaled(3).listed_in_runs, 12 * 63);
}

/// A quarter of the rows keep all keys, the others few: tiles hold rows of one kind, of every head its own.
TEST(SetsCost, RowsThatKeepMoreThanOthersStandTogether) {
  const char* const body =
      "let first = min((k / 4 + 1) * 4 - 1 - h % 2, n_k - 1); let first_row = min((q / 4 + 1) * 4 - 1 - h % 2, n_k - "
      "1);"
      "branch blocks(16, segment(4) | where(first == k)); branch blocks(16, where(first_row == q)); combine union;";
  for (const char* on : {"sm_61", "sm_80"}) {
    EXPECT_LE(waste(body, 4096, on, 2), 1.35) << on;
    const auto made = plan(pattern_of(body), bind_of(), find_target(on).value(), options(ir::Stationary::query));
    ASSERT_TRUE(made.ok());
    EXPECT_EQ(made->phases.front().rows.patch, 16);
    EXPECT_EQ(made->phases.front().rows.modulus, 64);
    EXPECT_TRUE(made->may_cut_keys());  // few queries of a long context still fill a GPU
  }
  // Vectors of rows skip by themselves. Runs that do not divide a tile are grouped row by row, which is in phases.
  EXPECT_LE(waste(body, 4096, "cpu:x86-64-v4", 2), 1.35);
  EXPECT_LE(waste("keep where(q / 5 % 7 == 0 or q - k < 40) & causal;", 4096, "sm_80"), 4);
}

/// Sparsity costs nothing extra: what the workloads of long contexts execute on GPUs, over what they ask for.
TEST(SetsCost, LongContextsOnGpus) {
  const std::string longnet3 = "branches dilated(segments: [2048, 4096, 8192], rates: [1, 2, 4]); combine joint; ";
  const std::string longnet5 =
      "branches dilated(segments: [2k, 4k, 8k, 16k, 32k], rates: [1, 2, 4, 6, 12]); combine joint; keep causal;";
  for (const char* on : {"sm_61", "sm_80"}) {
    EXPECT_LE(waste("keep window(1023, 0);", 16384, on), 1.10) << on;
    EXPECT_LE(waste("keep window(4095, 0);", 16384, on), 1.03) << on;
    EXPECT_LE(waste("keep blocks(64, window(4, 4));", 16384, on), 1.10) << on;
    EXPECT_LE(waste(longnet3, 16384, on), 0.82) << on;
    EXPECT_LE(waste(longnet3 + "keep causal;", 16384, on), 0.94) << on;
    EXPECT_LE(waste(longnet5, 65536, on), 1.0) << on;
  }
}

}  // namespace
}  // namespace weft::planner
