#include "tests/ring/ring_runner.h"
#include "tests/support/effort.h"
#include "tests/support/random_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

/// Rings in which a row's keys are cut: queries that go to the keys, and rounds of keys where not all fit the memory.
/// Rows have the bits that the chunks of keys give them, whoever computes them, and the values of one device.
namespace weft::test {
namespace {

struct Case {
  RingOptions options;
  int ranks = 2;
};

std::vector<RankOutcome> run(RingRunner& runner, const Case& of, int times = 1) {
  auto options = of.options;
  options.timeout_ms = 20'000;
  return runner.run_ring(local_transports(of.ranks).value(), options, times);
}

/// All of the cases: bytes add up, values are one device's but for rounding, and bits those of the first. How many cut.
int check(RingRunner& runner, const std::vector<Case>& cases, double bound, const std::string& name) {
  std::vector<std::byte> bits;
  std::string chunks;
  int cut = 0;
  for (const auto& of : cases) {
    const auto outcomes = run(runner, of);
    const auto text = fmt::format("{}, {} ranks, layout {}", name, of.ranks, static_cast<int>(of.options.layout));
    EXPECT_EQ(wrong_bytes(outcomes, &RankOutcome::share), "") << text;
    if (::testing::Test::HasFailure()) return cut;
    const auto& said = outcomes[0].summary.bits;
    if (said == "one device") {
      EXPECT_EQ(runner.difference(), "") << text;
      continue;
    }
    ++cut;
    EXPECT_LT(runner.apart(), bound) << text << ", " << said;
    if (bits.empty()) bits = runner.out(), chunks = said;
    EXPECT_EQ(said, chunks) << text;
    EXPECT_TRUE(bits == runner.out()) << text << ": other bits";
  }
  return cut;
}

Program program(const std::string& text, ir::Shape shape, ir::DType dtype = ir::DType::f32) {
  return {.text = text, .pattern = "p", .shape = std::move(shape), .dtype = dtype, .seed = 7};
}

ir::Shape sized(std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads, std::int64_t batch = 1) {
  return {.batch = batch, .n_q = tokens, .n_k = tokens, .heads = heads, .kv_heads = kv_heads, .d = 16, .d_v = 24};
}

const char* const kHeavy[] = {
    "pattern p { branch global(16) | window(20, 20); }",
    "pattern p { keep blocks(16, global(1) | window(1, 1) | random(1, seed: 3)); }",
    "pattern p { branch window(9, 9) | global(5); branch global(30); combine mean; }",
    "pattern p { branch where(q >= 300 and q < 320) | window(12, 3); score softcap(s, 9); }",
    "pattern p { branch global(12) | window(30, 3); dropout 0.2; sink_logit 0.5; }",
    "pattern p { branch global(12) | window(30, 3); weights sigmoid; }",
    "pattern p { branch dilated(segment: 400, rate: 1) & (global(20) | window(8, 8)); branch lag(64); }",
};

std::vector<Case> cases_of(RingOptions options, std::initializer_list<int> ranks) {
  std::vector<Case> out;
  for (const int count : ranks) {
    for (const auto layout : {RingLayout::automatic, RingLayout::contiguous, RingLayout::zigzag}) {
      options.layout = layout;
      out.push_back({options, count});
    }
  }
  return out;
}

TEST(RingOfQueries, HaveTheBitsOfChunks) {
  const auto cases = cases_of({.carrier = RingCarrier::queries}, {2, 5});
  for (const char* text : kHeavy) {
    for (const auto dtype : {ir::DType::f32, ir::DType::f16}) {
      RingRunner runner(program(text, sized(900, 4, 2, 2), dtype), "cpu");
      ASSERT_EQ(runner.refused(), "") << text;
      ASSERT_TRUE(runner.run_whole().ok()) << text;
      EXPECT_GT(check(runner, cases, dtype == ir::DType::f32 ? 1e-4 : 4e-3, text), 3);
      if (HasFailure()) return;
    }
  }
}

TEST(RingOfQueries, EvenOutWhatRanksHaveToDo) {
  RingRunner runner(program("pattern p { branch global(32) | window(20, 20); }", sized(8192, 1, 1)), "cpu");
  ASSERT_TRUE(runner.run_whole().ok());
  const auto keys = run(runner, {{.layout = RingLayout::contiguous, .carrier = RingCarrier::keys}, 8});
  EXPECT_GT(keys[0].summary.imbalance, 3);
  const auto queries = run(runner, {{.layout = RingLayout::contiguous, .carrier = RingCarrier::queries}, 8});
  EXPECT_LT(queries[0].summary.imbalance, 1.1);
  EXPECT_EQ(queries[0].summary.carrier, "queries, keys");
  double most = 0, all = 0;
  for (const auto& outcome : queries) most = std::max(most, outcome.share.pairs), all += outcome.share.pairs;
  EXPECT_LT(most, 1.1 * all / 8);
  // Keys that all rows are kept by travel either way; rows that see all of them ask for no more.
  EXPECT_LT(sent_bytes(queries, &RankOutcome::share), sent_bytes(keys, &RankOutcome::share));
}

TEST(RingOfQueries, WithoutHeavyRowsKeysTravel) {
  RingRunner runner(program("pattern p { branch window(20, 20); }", sized(700, 2, 1)), "cpu");
  ASSERT_TRUE(runner.run_whole().ok());
  const auto outcomes = run(runner, {{.carrier = RingCarrier::queries}, 4});
  EXPECT_EQ(wrong_bytes(outcomes, &RankOutcome::share), "");
  EXPECT_EQ(outcomes[0].summary.carrier, "keys");
  EXPECT_EQ(outcomes[0].summary.bits, "one device");
  EXPECT_EQ(runner.difference(), "");
}

TEST(RingOfQueries, RunAgain) {
  RingRunner runner(program(kHeavy[0], sized(1600, 2, 2, 2)), "cpu");
  ASSERT_TRUE(runner.run_whole().ok());
  const auto outcomes = run(runner, {{.layout = RingLayout::contiguous, .carrier = RingCarrier::queries}, 3}, 4);
  EXPECT_EQ(wrong_bytes(outcomes, &RankOutcome::share), "");
  EXPECT_LT(runner.apart(), 1e-4);
}

TEST(RingOfQueries, OnGpusAsTheirTextIsEmulated) {
  RingRunner runner(program(kHeavy[0], sized(900, 2, 1)), "emulate:sm_61");
  ASSERT_EQ(runner.refused(), "");
  ASSERT_TRUE(runner.run_whole().ok());
  const auto cases = cases_of({.carrier = RingCarrier::queries}, {2, 3});
  EXPECT_EQ(check(runner, cases, 1e-4, "emulated"), std::ssize(cases));
}

const char* const kRounds[] = {
    "pattern p { keep causal; }",
    "pattern p { branch window(40, 7); }",
    "pattern p { branches dilated(segments: [64, 128, 256], rates: [1, 2, 4]); keep causal; }",
    "pattern p { branches dilated(segments: [64, 100, 700], rates: [1, 3, 2]); }",
    "pattern p { branch sink(3) | window(20, 0); keep causal; combine union; score softcap(s, 20); }",
    "pattern p { branches dilated(segments: [32, 100], rates: [2, 3], heads: groups); combine mean; }",
    "pattern p { keep blocks(16, random(2, seed: 4) | global(1)); dropout 0.1; }",
    "pattern p { branch window(50, 3); weights sigmoid; }",
};

/// K and V of so many tokens of the sizes above, twice, and messages.
std::size_t memory_for(std::int64_t tokens, std::int64_t kv_heads, std::int64_t batch) {
  return static_cast<std::size_t>(4 * tokens * kv_heads * batch * (16 + 24) * 4);
}

TEST(RingInRounds, HasTheBitsOfChunks) {
  const auto cases = cases_of({.memory = memory_for(140, 2, 2)}, {1, 3});
  for (const char* text : kRounds) {
    RingRunner runner(program(text, sized(700, 4, 2, 2)), "cpu");
    ASSERT_EQ(runner.refused(), "") << text;
    ASSERT_TRUE(runner.run_whole().ok()) << text;
    EXPECT_GT(check(runner, cases, 1e-4, text), 2);
    if (HasFailure()) return;
  }
}

TEST(RingInRounds, OnGpusAsTheirTextIsEmulated) {
  for (const char* target : {"emulate:sm_61", "emulate:sm_80"}) {
    RingRunner runner(program(kRounds[0], sized(400, 2, 1), ir::DType::f16), target);
    ASSERT_EQ(runner.refused(), "");
    ASSERT_TRUE(runner.run_whole().ok());
    const auto cases = cases_of({.memory = memory_for(128, 1, 1) / 2}, {2});
    EXPECT_EQ(check(runner, cases, 4e-3, target), std::ssize(cases));
  }
}

TEST(RingInRounds, OnlyWhereMemoryForcesIt) {
  RingRunner runner(program("pattern p { branch window(40, 7); }", sized(2000, 2, 1)), "cpu");
  ASSERT_TRUE(runner.run_whole().ok());
  // A rank's own rows and its halo fit, the whole would not.
  const auto fits = run(runner, {{.layout = RingLayout::contiguous, .memory = memory_for(200, 1, 1)}, 8});
  EXPECT_EQ(fits[0].summary.bits, "one device");
  EXPECT_EQ(runner.difference(), "");
  const auto cut = run(runner, {{.layout = RingLayout::contiguous, .memory = memory_for(200, 1, 1)}, 2});
  EXPECT_EQ(cut[0].summary.bits, "chunks of 192 keys");
}

TEST(RingInRounds, SaysWhatItCannot) {
  const auto message = [](const char* text, const char* target, const RingOptions& options, bool gradients = false) {
    RingRunner runner(program(text, sized(700, 2, 2)), target, gradients);
    EXPECT_TRUE(runner.run_whole().ok());
    const auto outcomes = run(runner, {options, 2});
    EXPECT_FALSE(outcomes[0].status.ok());
    EXPECT_FALSE(outcomes[1].status.ok());
    return outcomes[0].status.ok() ? std::string() : outcomes[0].status.error().message;
  };
  const char* const causal = "pattern p { keep causal; }";
  EXPECT_NE(message(causal, "cpu", {.memory = 1000}).find("the smallest round of keys takes"), std::string::npos);
  EXPECT_NE(message(causal, "cpu", {.layout = RingLayout::striped, .memory = memory_for(140, 2, 1)}).find("striped"),
            std::string::npos);
  EXPECT_NE(message(causal, "cpu", {.carrier = RingCarrier::heads, .memory = memory_for(140, 2, 1)})
                .find("the carrier 'keys'"),
            std::string::npos);
  EXPECT_NE(message(causal, "interpreter", {.memory = memory_for(140, 2, 1)}).find("the interpreter"),
            std::string::npos);
  EXPECT_NE(message(kHeavy[0], "cpu", {.layout = RingLayout::striped, .carrier = RingCarrier::queries}).find("striped"),
            std::string::npos);
  EXPECT_NE(message(causal, "cpu", {.memory = memory_for(140, 2, 1)}, true).find("gradients of a ring want all rows"),
            std::string::npos);
}

TEST(RingInRounds, RandomProgramsOverTheWholeLanguage) {
  int cut = 0;
  const int programs = effort(20, 50);
  for (int i = 0; i < programs; ++i) {
    const auto seed = 460000 + static_cast<std::uint64_t>(i);
    RingRunner runner(random_program(seed, {.most_tokens = 400, .most_heads = 3, .nesting = 2}), "cpu");
    if (!runner.refused().empty() || !runner.run_whole().ok()) continue;
    const auto& s = runner.program().shape;
    const auto row = s.kv_heads * s.batch * (s.d + s.d_v) * ir::size_of(runner.program().dtype);
    std::vector<Case> cases;
    for (const int ranks : {2, 3, 5}) {
      const auto layout = ranks == 3 ? RingLayout::contiguous : RingLayout::automatic;
      cases.push_back({{.layout = layout, .memory = static_cast<std::size_t>(4 * 128 * row)}, ranks});
    }
    const auto first = run(runner, cases[0]);
    if (!first[0].status.ok() && first[0].status.error().message.find("pooled") != std::string::npos) continue;
    cut += check(runner, cases, runner.program().dtype == ir::DType::f32 ? 1e-3 : 2e-2,
                 fmt::format("seed {}\n{}", seed, to_file(runner.program())));
    if (HasFailure()) return;
  }
  EXPECT_GT(cut, programs / 2);
}

/// A pattern in which a few rows, wherever they are, keep much more than the others.
Program random_heavy(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const std::int64_t tokens = 700 + below(1200), first = below(tokens - 40), count = 1 + below(24);
  const std::string heavy[] = {fmt::format("global({})", count),
                               fmt::format("where(q >= {} and q < {})", first, first + count),
                               fmt::format("where(q >= {} and q < {} and k % 3 != 1)", first, first + count),
                               fmt::format("(global({}) & !segment(50))", count)};
  const std::string light[] = {
      fmt::format("window({}, {})", below(20), below(20)), fmt::format("lag({})", 1 + below(90)),
      fmt::format("dilated(segment: {}, rate: {})", 20 + below(40), 2 + below(3)),
      fmt::format("neighborhood(size: {})", 2 + below(20)), fmt::format("blocks(16, window(1, {}))", below(2))};
  const std::string scores[] = {"",
                                "score softcap(s, 9); ",
                                "score s + alibi(h) * (k - q); ",
                                "weights sigmoid(s - 3); ",
                                "dropout 0.2; ",
                                "sink_logit 0.5; "};
  const std::string combines[] = {"", "combine union; ", "combine mean; ", "combine sum; "};
  const auto score = static_cast<std::size_t>(below(6));
  const auto combine = score == 0 ? static_cast<std::size_t>(below(4)) : 0;
  const auto text = fmt::format("pattern p {{ branch {} | {}; branch {}; {}{}}}", heavy[below(4)], light[below(5)],
                                light[below(5)], combines[combine], scores[score]);
  const std::int64_t group = 1 + below(3), kv = 1 + below(2);
  return {.text = text,
          .pattern = "p",
          .shape = {.batch = 1 + below(2),
                    .n_q = tokens,
                    .n_k = tokens,
                    .heads = kv * group,
                    .kv_heads = kv,
                    .d = 8 + below(30),
                    .d_v = 8 + below(30),
                    .dropout_seed = 5},
          .dtype = below(3) == 0 ? ir::DType::bf16 : ir::DType::f32,
          .seed = seed};
}

TEST(RingOfQueries, RandomPatternsWithHeavyRows) {
  int cut = 0;
  const int programs = effort(10, 20);
  for (int i = 0; i < programs; ++i) {
    const auto problem = random_heavy(470000 + static_cast<std::uint64_t>(i));
    RingRunner runner(problem, "cpu");
    ASSERT_EQ(runner.refused(), "") << problem.text;
    ASSERT_TRUE(runner.run_whole().ok()) << problem.text;
    const auto cases = cases_of({.carrier = RingCarrier::queries}, {2, 7});
    cut += check(runner, cases, problem.dtype == ir::DType::f32 ? 1e-3 : 3e-2, to_file(problem)) > 0 ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(cut, programs / 2);
}

}  // namespace
}  // namespace weft::test
