#include "tests/support/random_pattern.h"

#include "tests/ir/problem.h"

#include <algorithm>
#include <map>

namespace weft::test {
namespace {

TEST(RandomPattern, TheSameOnEveryPlatform) {
  EXPECT_EQ(
      describe(random_problem(1)),
      "# batch 1 n_q 14 n_k 40 heads 6 kv 1 d 2 d_v 1 offset [20]\n"
      "pattern random {\n"
      "  tokens any;\n"
      "  branches dilated(segments: [7, 64, 3], rates: [3, 4, 6], phase: [h % 3, 0, h % 6][i], heads: groups_last);\n"
      "  keep causal;\n"
      "  combine sum;\n"
      "}\n");
}

TEST(RandomPattern, FitsItsShapesAndReachesEveryKind) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const RandomProblem problem = random_problem(seed);
    const Status fits = ir::check_shapes(problem.pattern, problem.shape, problem.inputs);
    EXPECT_TRUE(fits.ok()) << (fits.ok() ? "" : fits.error().message) << "\n" << describe(problem);
    const std::string text = describe(problem);
    for (const char* word : {"causal",   "window",       "segment(",
                             "dilated",  "queries: all", "sink",
                             "prefix",   "lengths",      "!",
                             " - ",      " | ",          " & ",
                             "on heads", "groups_last",  "heads: groups)",
                             "keep",     "joint;",       "joint detached",
                             "union",    "sum",          "mean",
                             "h % ",     "H + "}) {
      seen[word] += text.find(word) != std::string::npos;
    }
    seen["offset"] += !problem.shape.offset.empty();
    seen["shared heads"] += problem.shape.heads != problem.shape.kv_heads;
    seen["other n_q"] += problem.shape.n_q != problem.shape.n_k;
  }
  for (const auto& [what, times] : seen) EXPECT_GT(times, 4) << what;
}

bool keeps_diagonal(const RandomProblem& problem) {
  const ir::PairEvaluator evaluator(problem.pattern, problem.shape, problem.inputs);
  const std::int64_t n = std::min(problem.shape.n_q, problem.shape.n_k);
  for (std::int64_t q = 0; q < n; ++q) {
    if (evaluator.multiplicity(0, 0, q, q) > 0) return true;
  }
  return false;
}

TEST(RandomPattern, ShrinksToTheHeartOfTheMatter) {
  int shrunk = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const RandomProblem problem = random_problem(seed);
    if (keeps_diagonal(problem)) continue;
    const auto fails = [](const RandomProblem& p) { return !keeps_diagonal(p); };
    const RandomProblem small = shrink(problem, fails);
    EXPECT_TRUE(fails(small));
    EXPECT_EQ(small.pattern.branches.size(), 1U) << describe(small);
    EXPECT_LE(small.pattern.branches[0].set->nodes, 3) << describe(small);
    EXPECT_EQ(small.shape.heads, 1);
    ++shrunk;
  }
  EXPECT_GT(shrunk, 0);
}

}  // namespace
}  // namespace weft::test
