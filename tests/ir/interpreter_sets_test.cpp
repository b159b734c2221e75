#include "tests/ir/problem.h"

namespace weft::ir {
namespace {

SetPtr of(SetKind kind, std::vector<std::int64_t> args = {}) { return make_set(kind, std::move(args)); }
SetPtr both(SetPtr a, SetPtr b) {
  return make_set(SetKind::intersection, std::vector<SetPtr>{std::move(a), std::move(b)});
}

std::string draw(const SetPtr& set, std::int64_t n, std::int64_t h = 0, std::int64_t heads = 1) {
  return picture(pattern_of({set}), square(n, heads), {}, h);
}

TEST(InterpreterSets, PlainOnes) {
  EXPECT_EQ(draw(of(SetKind::causal), 3), "#..\n##.\n###\n");
  EXPECT_EQ(draw(of(SetKind::window, {1, 0}), 3), "#..\n##.\n.##\n");
  EXPECT_EQ(draw(of(SetKind::segment, {2}), 3), "##.\n##.\n..#\n");
  EXPECT_EQ(draw(of(SetKind::strided, {2, 3}), 3), ".#.\n.#.\n.#.\n");
  EXPECT_EQ(draw(of(SetKind::lag, {2}), 3), "#.#\n.#.\n#.#\n");
  EXPECT_EQ(draw(of(SetKind::sink, {1}), 3), "#..\n#..\n#..\n");
  EXPECT_EQ(draw(of(SetKind::global, {1}), 3), "###\n#..\n#..\n");
  EXPECT_EQ(draw(make_set(SetKind::difference, std::vector<SetPtr>{of(SetKind::segment, {2}), of(SetKind::causal)}), 3),
            ".#.\n...\n...\n");
}

TEST(InterpreterSets, DilatedRestartsInEachSegmentAndTakesThePhaseFromTheHead) {
  const SetPtr set = make_dilated(3, 2, variable(Variable::h), false);
  EXPECT_EQ(draw(set, 5, 0, 2), "#.#..\n.....\n#.#..\n...#.\n.....\n");
  EXPECT_EQ(draw(set, 5, 1, 2), ".....\n.#...\n.....\n.....\n....#\n");
  EXPECT_EQ(draw(make_dilated(3, 2, constant(1), true), 4), ".#..\n.#..\n.#..\n....\n");
}

TEST(InterpreterSets, BlocksSeeBlockNumbers) {
  EXPECT_EQ(draw(make_blocks(2, of(SetKind::causal)), 5), "##...\n##...\n####.\n####.\n#####\n");
  const ExprPtr last =
      apply(Op::equal, {variable(Variable::k), apply(Op::subtract, {variable(Variable::n_k), constant(1)})});
  EXPECT_EQ(draw(make_blocks(2, make_where(last)), 5), "....#\n....#\n....#\n....#\n....#\n");
}

TEST(InterpreterSets, AlignedAtTheEndWhenLengthsDiffer) {
  Shape shape = square(5);
  shape.n_q = 2;
  EXPECT_EQ(picture(pattern_of({of(SetKind::causal)}), shape), "####.\n#####\n");
  shape.offset = {0};
  EXPECT_EQ(picture(pattern_of({of(SetKind::causal)}), shape), "#....\n##...\n");
}

TEST(InterpreterSets, AxialOnAGrid) {
  Pattern p = pattern_of({of(SetKind::axial)});
  p.grid = {2, 3};
  EXPECT_EQ(picture(p, square(6)).substr(0, 7), "####..\n");
}

TEST(InterpreterSets, RandomIsDistinctExactAndPerHead) {
  const Pattern p = pattern_of({of(SetKind::random, {5, 7})});
  const std::string first = picture(p, square(20, 2), {}, 0);
  EXPECT_NE(first, picture(p, square(20, 2), {}, 1));
  for (std::size_t row = 0; row < 20; ++row) {
    const std::string line = first.substr(row * 21, 20);
    EXPECT_EQ(std::count(line.begin(), line.end(), '#'), 5);
  }
  EXPECT_EQ(draw(of(SetKind::random, {5, 7}), 3), "###\n###\n###\n");
}

TEST(InterpreterSets, RingOwnersShareOutEveryPosition) {
  for (const auto layout : {RingLayout::contiguous, RingLayout::zigzag, RingLayout::striped}) {
    for (std::int64_t n = 1; n < 23; ++n) {
      Pattern p = pattern_of({});
      for (std::int64_t rank = 0; rank < 3; ++rank) {
        p.branches.push_back({make_own(SetKind::own_key, 3, rank, layout), {}, {}});
      }
      const PairEvaluator evaluator(p, square(n), {});
      for (std::int64_t k = 0; k < n; ++k) EXPECT_EQ(evaluator.multiplicity(0, 0, 0, k), 1) << n << " " << k;
    }
  }
  EXPECT_EQ(draw(make_own(SetKind::own_query, 2, 0, RingLayout::zigzag), 4), "####\n....\n....\n####\n");
}

TEST(InterpreterSets, InputsByBatchAndHead) {
  Pattern p = pattern_of({make_input_set(SetKind::lengths, 0)});
  p.inputs = {{.name = "valid", .axes = {{Axis::Kind::batch, 0}}, .range = {}}};
  Tensor valid({1});
  valid.data = {2};
  EXPECT_EQ(picture(p, square(3), {valid}), "##.\n##.\n...\n");

  Pattern d = pattern_of({both(make_input_set(SetKind::document, 0), of(SetKind::causal))});
  d.inputs = {{.name = "doc", .axes = {{Axis::Kind::tokens, 0}}, .range = {}}};
  Tensor doc({4});
  doc.data = {7, 7, 9, 7};
  EXPECT_EQ(picture(d, square(4), {doc}), "#...\n##..\n..#.\n##.#\n");
}

TEST(InterpreterSets, TopKeepsTheDiagonalAndTheBestBlocks) {
  Pattern p = pattern_of({make_blocks(2, make_top(2, 0, false))});
  p.inputs = {
      {.name = "t",
       .type = InputType::f32,
       .axes = {{Axis::Kind::batch, 0}, {Axis::Kind::heads, 0}, {Axis::Kind::blocks, 0}, {Axis::Kind::blocks, 0}},
       .block = 2,
       .range = {}}};
  Tensor scores({1, 1, 3, 3});
  scores.data = {0, 1, 2, 5, 0, 5, 3, 1, 2};
  const std::string rows = "##..##\n##..##\n####..\n####..\n##..##\n##..##\n";
  EXPECT_EQ(picture(p, square(6), {scores}), rows);
  p.branches[0].set = make_blocks(2, make_top(2, 0, true));
  EXPECT_EQ(picture(p, square(6), {scores}), "##....\n##....\n####..\n####..\n##..##\n##..##\n");
}

TEST(InterpreterSets, PooledTopComparesBlockMeans) {
  TestProblem problem(pattern_of({make_blocks(2, make_top(2, -1, false))}), square(8, 1, 1));
  problem.q.data = {1, 1, 1, 1, -1, -1, 1, 3};
  problem.k.data = {0, 0, 4, 6, 5, 5, 1, 0};
  const PairEvaluator evaluator(problem.pattern, problem.shape, {}, &problem.q, &problem.k);
  const auto row = [&](std::int64_t q) {
    std::string out;
    for (std::int64_t k = 0; k < 8; k += 2) out += evaluator.keeps(0, 0, 0, q, k) ? '#' : '.';
    return out;
  };
  EXPECT_EQ(row(0), "##..") << "blocks 1 and 2 score the same: the smaller index wins";
  EXPECT_EQ(row(4), "#.#.") << "a negative query prefers small keys, the diagonal stays";
  EXPECT_EQ(row(7), ".#.#");
}

}  // namespace
}  // namespace weft::ir
