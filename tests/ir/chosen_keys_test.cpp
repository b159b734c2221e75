#include "compiler/ir/chosen_keys.h"

#include "tests/ir/problem.h"

#include <fmt/format.h>

#include <algorithm>

/// Choices of `random` and `top` that somebody else made: which are right, and what the interpreter makes of them.
namespace weft::ir {
namespace {

constexpr std::int64_t kTokens = 44, kBlock = 4, kBlocks = 11, kHeads = 2;

ChosenKeys chosen_for(const TestProblem& problem, std::size_t number = 0) {
  const auto set = chosen_sets(problem.pattern).at(number);
  const std::int64_t entries = set.set->kind == SetKind::random ? 1 : problem.shape.batch;
  ChosenKeys keys{.of = set, .first_row = 0, .extent = {entries, kHeads, kBlocks, std::min(set.set->args[0], kBlocks)}};
  choose_keys(problem.pattern, problem.shape, problem.inputs, problem.q, problem.k, keys);
  return keys;
}

TestProblem problem_of(const SetPtr& set) {
  Shape shape = square(kTokens, kHeads);
  shape.batch = 2;
  return {pattern_of({make_blocks(kBlock, set)}), shape};
}

std::vector<std::int64_t> all_rows() {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < kTokens; ++row) rows.push_back(row);
  return rows;
}

std::string wrong(const TestProblem& problem, const ChosenKeys& keys, const std::vector<std::int64_t>& rows) {
  return wrong_choice(problem.pattern, problem.shape, problem.inputs, problem.q, problem.k, keys, rows);
}

/// What is said of the semantics' own choice with one row changed.
std::string wrong(const TestProblem& problem, std::int64_t row, const std::vector<std::int32_t>& places) {
  auto keys = chosen_for(problem);
  std::copy(places.begin(), places.end(), const_cast<std::int32_t*>(keys.places(1, 1, row)));
  EXPECT_EQ(wrong(problem, keys, {0}), row == 0 ? wrong(problem, keys, all_rows()) : "") << "other rows are right";
  return wrong(problem, keys, all_rows());
}

std::vector<std::int32_t> places_of(const ChosenKeys& keys, std::int64_t row) {
  const auto* const first = keys.places(1, 1, row);
  return {first, first + keys.extent[3]};
}

TEST(ChosenKeys, StandInTheOrderOfTheTextEachOnce) {
  const auto best = make_top(3, -1, true), sample = make_set(SetKind::random, {2, 7});
  Pattern p = pattern_of({make_set(SetKind::unite, std::vector<SetPtr>{make_blocks(8, sample), make_blocks(4, best)}),
                          make_set(SetKind::difference, std::vector<SetPtr>{make_blocks(4, make_top(3, -1, true)),
                                                                            make_blocks(2, make_blocks(4, sample))})});
  const auto sets = chosen_sets(p);
  ASSERT_EQ(sets.size(), 2u) << "blocks(2, blocks(4, …)) are blocks of 8";
  EXPECT_EQ(print(sets[0], p), "blocks(8, random(2, seed: 7))");
  EXPECT_EQ(print(sets[1], p), "blocks(4, top(3, by: pooled, causal: true))");
}

TEST(ChosenKeys, OfTheSemanticsAreRight) {
  for (const auto& set : {make_top(3, -1, true), make_top(3, -1, false), make_top(40, -1, false),
                          make_set(SetKind::random, {3, 7}), make_set(SetKind::random, {40, 7})}) {
    const auto problem = problem_of(set);
    EXPECT_EQ(wrong(problem, chosen_for(problem), all_rows()), "");
  }
}

TEST(ChosenKeys, WrongFormsAreNamed) {
  const auto problem = problem_of(make_top(3, -1, true));
  const auto keys = chosen_for(problem);
  const auto best = places_of(keys, 9);
  const std::string where = "blocks(4, top(3, by: pooled, causal: true)), batch entry 1, head 1, row 9: ";
  EXPECT_EQ(wrong(problem, 9, {best[1], best[0], best[2]}),
            where + fmt::format("{} stands behind {}", best[0], best[1]));
  EXPECT_EQ(wrong(problem, 9, {best[0], best[0], best[2]}),
            where + fmt::format("{} stands behind {}", best[0], best[0]));
  EXPECT_EQ(wrong(problem, 9, {-1, best[1], best[2]}), where + "chose -1 of 11");
  EXPECT_EQ(wrong(problem, 9, {best[0], best[1], 11}), where + "chose 11 of 11");
  EXPECT_EQ(wrong(problem, 9, {best[0], best[1], 10}), where + "chose 10, which lies ahead");
  EXPECT_EQ(wrong(problem, 9, {best[0], best[1], kNoKey}), where + "chose 2 of 10, not 3");
  EXPECT_EQ(wrong(problem, 9, {best[0], kNoKey, best[2]}),
            where + fmt::format("{} stands behind an unused place", best[2]));
  EXPECT_EQ(wrong(problem, 9, {0, 1, 2}), where + "its own block is not chosen");
  EXPECT_EQ(wrong(problem, 1, {0, 1, 1}).substr(where.size() - 1), " 1 stands behind 1");
}

TEST(ChosenKeys, ASampleIsTheSeeds) {
  const auto problem = problem_of(make_set(SetKind::random, {2, 7}));
  auto places = places_of(chosen_for(problem), 4);
  places[0] = places[0] == 0 ? (places[1] == 1 ? 2 : 1) : 0;
  std::sort(places.begin(), places.end());
  EXPECT_NE(wrong(problem, 4, places).find("; the seed draws "), std::string::npos) << wrong(problem, 4, places);
}

/// A worse block may stand in by a ten-thousandth of 1 + its score, and no more.
TEST(ChosenKeys, TheToleranceIsThatOfTheSemantics) {
  auto problem = problem_of(make_top(2, -1, false));
  std::fill(problem.q.data.begin(), problem.q.data.end(), 0.5);
  std::fill(problem.k.data.begin(), problem.k.data.end(), 0.0);
  const auto set_block = [&](std::int64_t block, double score) {
    for (std::int64_t n = block * kBlock; n < (block + 1) * kBlock; ++n) {
      for (std::int64_t c = 0; c < problem.shape.d; ++c) problem.k.at(1, n, 1, c) = score / 2;
    }
  };
  set_block(3, 1.0);
  set_block(5, 1.0 - 1.9e-4);
  EXPECT_EQ(places_of(chosen_for(problem), 8), (std::vector<std::int32_t>{3, 8}));
  EXPECT_EQ(wrong(problem, 8, {5, 8}), "");
  set_block(5, 1.0 - 2.1e-4);
  EXPECT_NE(wrong(problem, 8, {5, 8}).find("chose 5, which scores 0.99979; the least of the best 2 scores 1"),
            std::string::npos)
      << wrong(problem, 8, {5, 8});
}

TEST(ChosenKeys, OnlyTheBlocksOfTheRowsAreLookedAt) {
  auto problem = problem_of(make_top(3, -1, false));
  auto keys = chosen_for(problem);
  const_cast<std::int32_t*>(keys.places(0, 0, 6))[0] = -1;
  EXPECT_EQ(wrong(problem, keys, {0, 23, 28}), "");
  EXPECT_NE(wrong(problem, keys, {24}), "");
  EXPECT_NE(wrong(problem, keys, {27}), "");
  problem.shape.offset = {0, 0};
  problem.shape.offset[0] = 4;
  EXPECT_EQ(wrong(problem, keys, {24}).find("row 6"), std::string::npos) << "rows are numbers, blocks are of positions";
}

TEST(ChosenKeys, StandInForTheInterpretersOwn) {
  const auto problem = problem_of(make_set(SetKind::random, {2, 7}));
  std::vector<ChosenKeys> chosen = {chosen_for(problem)};
  const auto run = [&](const std::vector<ChosenKeys>* given) {
    return interpret_rows(problem.pattern, problem.shape, problem.q, problem.k, problem.v, {}, all_rows(), given)
        .value()
        .o.data;
  };
  const auto own = run(nullptr);
  EXPECT_EQ(run(&chosen), own);
  // Every row keeps blocks 1 and 8, in whatever order they stand.
  for (std::size_t i = 0; i < chosen[0].numbers.size(); i += 2) {
    chosen[0].numbers[i] = 8;
    chosen[0].numbers[i + 1] = 1;
  }
  const auto other =
      problem_of(make_where(apply(Op::logical_or, {apply(Op::equal, {variable(Variable::k), constant(1)}),
                                                   apply(Op::equal, {variable(Variable::k), constant(8)})})));
  EXPECT_EQ(run(&chosen), other.run().o.data);
  EXPECT_NE(run(&chosen), own);
  chosen[0].of.block = 8;
  EXPECT_EQ(run(&chosen), own) << "a choice for another set";
}

}  // namespace
}  // namespace weft::ir
