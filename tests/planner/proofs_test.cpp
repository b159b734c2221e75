#include "compiler/ir/plan_interpreter.h"
#include "compiler/planner/analysis.h"
#include "compiler/planner/planner.h"
#include "tests/planner/coverage.h"
#include "tests/support/effort.h"
#include "tests/support/random_pattern.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>

/// The proofs on plans, without kernels: what is visited, in both orientations and over ring hops, against the
/// meaning of the pattern pair by pair.
namespace weft::planner {
namespace {

using test::RandomProblem;

std::string check_ring(const RandomProblem& problem, ir::RingLayout layout, std::int64_t ranks) {
  Coverage got(problem.pattern, problem.shape);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (std::int64_t from = 0; from < ranks; ++from) {
      const ir::Pattern hop = hop_of(problem.pattern, layout, ranks, rank, from);
      const auto made = plan(hop, bind_of(), target(), options(ir::Stationary::query));
      if (!made.ok())
        return made.error().diagnostics.empty() || made.error().diagnostics[0].code != "E0405" ? made.error().message
                                                                                               : "";
      if (keeps_nothing(*made, problem.shape, problem.inputs)) {
        Coverage none(problem.pattern, problem.shape);
        none.add(*made, problem.inputs);
        if (!none.empty()) return "an empty hop keeps pairs";
        continue;
      }
      if (auto wrong = got.add(*made, problem.inputs); !wrong.empty()) return wrong;
    }
  }
  return got.difference(problem.pattern, problem.inputs);
}

int count(int usual) { return usual * test::random_times(); }

void prove(std::uint64_t first, int problems, const test::RandomOptions& shape,
           const std::function<std::string(const RandomProblem&)>& wrong) {
  for (int i = 0; i < problems; ++i) {
    const RandomProblem problem = test::random_problem(first + static_cast<std::uint64_t>(i), shape);
    if (wrong(problem).empty()) continue;
    const RandomProblem small = test::shrink(problem, [&](const RandomProblem& p) { return !wrong(p).empty(); });
    const auto made = plan(small.pattern, bind_of(), target(), options(ir::Stationary::query));
    FAIL() << "seed " << first + static_cast<std::uint64_t>(i) << ": " << wrong(small) << "\n"
           << test::describe(small) << "\n"
           << (made.ok() ? ir::print(*made) : "");
  }
}

TEST(Proofs, EveryKeptPairIsVisitedOnceWithItsWeight) {
  prove(1, count(2500), {}, [](const RandomProblem& p) { return check(p, ir::Stationary::query); });
}

TEST(Proofs, LongerSequencesWithRowClasses) {
  // Long enough that rows are grouped into classes: cells of several tiles.
  const test::RandomOptions longer{.most_tokens = 500, .most_heads = 3, .most_branches = 4, .nesting = 1};
  int classes = 0;
  int phases = 0;
  prove(50000, count(100), longer, [&](const RandomProblem& p) {
    const auto made = plan(p.pattern, bind_of(), target(), options(ir::Stationary::query));
    if (made.ok()) {
      phases += made->phases.size() > 1 ? 1 : 0;
      classes += made->phases[0].rows.classes ? 1 : 0;
    }
    return check(p, ir::Stationary::query);
  });
  // The generator must reach both, or this test proves less than it says.
  EXPECT_GT(classes, 3);
  EXPECT_GT(phases, 0);
}

TEST(Proofs, TheTransposedPlanVisitsTheSamePairs) {
  prove(100000, count(1500), {}, [](const RandomProblem& p) { return check(p, ir::Stationary::key); });
}

TEST(Proofs, RingHopsAddUpToTheWhole) {
  for (auto layout : {ir::RingLayout::contiguous, ir::RingLayout::zigzag, ir::RingLayout::striped}) {
    for (std::int64_t ranks = 2; ranks <= 7; ++ranks) {
      const auto seed = static_cast<std::uint64_t>(200000 + 1000 * static_cast<int>(layout) + 100 * ranks);
      // Ranks own the positions 0 … n - 1, so queries and keys are the same tokens.
      prove(seed, count(8), {.nesting = 2, .other_ends = false},
            [&](const RandomProblem& p) { return check_ring(p, layout, ranks); });
    }
  }
}

TEST(Proofs, CountedWorkIsTheVisitedWork) {
  prove(300000, count(800), {}, [](const RandomProblem& p) -> std::string {
    const auto made = plan(p.pattern, bind_of(), target(), options(ir::Stationary::query));
    if (!made.ok()) return "";
    const auto tables = ir::make_tables(*made, p.shape.heads);
    double weight = 0;
    ir::visit_pairs(*made, *tables, p.shape, p.inputs, [&](const ir::Visit& v) { weight += v.weight; });
    const double counted = count_work(*made, *tables, p.shape, p.inputs).pairs;
    return counted == weight ? "" : "counted " + std::to_string(counted) + ", visited " + std::to_string(weight);
  });
}

}  // namespace
}  // namespace weft::planner
