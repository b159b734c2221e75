#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/plan_interpreter.h"
#include "compiler/planner/analysis.h"
#include "compiler/planner/planner.h"
#include "tests/support/random_pattern.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>

/// The proofs on plans, without kernels: what is visited, in both orientations and over ring hops, against the
/// meaning of the pattern pair by pair.
namespace weft::planner {
namespace {

using test::RandomProblem;

/// Weight of each pair as the plan visits it, per pass for sum and mean; -1 where a pair comes twice.
struct Coverage {
  Coverage(const ir::Pattern& p, const ir::Shape& s)
      : shape(s),
        slots(p.combine == ir::Combine::sum || p.combine == ir::Combine::mean
                  ? static_cast<std::int64_t>(p.branches.size())
                  : 1),
        weight(static_cast<std::size_t>(slots * s.batch * s.heads * s.n_q * s.n_k), 0) {}

  int& at(std::int64_t slot, std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t k) {
    return weight[static_cast<std::size_t>(
        (((slot * shape.batch + b) * shape.heads + h) * shape.n_q + row) * shape.n_k + k)];
  }

  ir::Shape shape;
  std::int64_t slots;
  std::vector<int> weight;
};

/// Head dims do not matter here, but a plan has some.
ir::Bind bind_of() { return {.d = 64, .d_v = 64}; }

Target target() { return find_target("cpu:x86-64-v3").value(); }

Options options(ir::Stationary stationary) { return {.stationary = stationary, .for_kernels = false}; }

/// Adds the plan's visits; says what is wrong, if anything.
std::string cover(const ir::Plan& plan, const RandomProblem& problem, Coverage& out) {
  const auto tables = ir::make_tables(plan, problem.shape.heads);
  if (!tables.ok()) return tables.error().message;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, int>, std::map<int, int>> visits;
  std::string wrong;
  ir::visit_pairs(plan, *tables, problem.shape, problem.inputs, [&](const ir::Visit& v) {
    const bool by_key = plan.phases[static_cast<std::size_t>(v.phase)].stationary == ir::Stationary::key;
    const std::int64_t q = by_key ? v.y : v.x;
    const std::int64_t k = by_key ? v.x : v.y;
    // A phase visits a pair once in a pass; several phases add up.
    if (++visits[{v.b, v.h, q, k, v.pass}][v.phase] > 1) wrong = "a pair is visited twice in one phase";
    out.at(out.slots > 1 ? v.pass : 0, v.b, v.h, q - problem.shape.offset_of(v.b), k) += v.weight;
  });
  return wrong;
}

std::string compare(const RandomProblem& problem, Coverage& got) {
  const ir::PairEvaluator meaning(problem.pattern, problem.shape, problem.inputs);
  const auto& s = problem.shape;
  for (std::int64_t slot = 0; slot < got.slots; ++slot) {
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        for (std::int64_t row = 0; row < s.n_q; ++row) {
          for (std::int64_t k = 0; k < s.n_k; ++k) {
            const std::int64_t q = row + s.offset_of(b);
            const int want = got.slots > 1 ? (meaning.keeps(static_cast<std::size_t>(slot), b, h, q, k) ? 1 : 0)
                                           : meaning.multiplicity(b, h, q, k);
            if (got.at(slot, b, h, row, k) != want) {
              return "branch slot " + std::to_string(slot) + " b " + std::to_string(b) + " h " + std::to_string(h) +
                     " q " + std::to_string(q) + " k " + std::to_string(k) + ": weight " +
                     std::to_string(got.at(slot, b, h, row, k)) + ", meant " + std::to_string(want);
            }
          }
        }
      }
    }
  }
  return "";
}

/// Empty when the plan's visits are the pattern's pairs.
std::string check(const RandomProblem& problem, ir::Stationary stationary) {
  const auto made = plan(problem.pattern, bind_of(), target(), options(stationary));
  if (!made.ok()) {
    // Sets may fall into more pieces than the planner keeps; that is said, not computed wrongly.
    const bool too_complex = !made.error().diagnostics.empty() && made.error().diagnostics[0].code == "E0405";
    return too_complex ? "" : made.error().message;
  }
  Coverage got(problem.pattern, problem.shape);
  if (auto wrong = cover(*made, problem, got); !wrong.empty()) return wrong;
  auto again = ir::parse_plan(ir::print(*made));
  if (!again.ok()) return "the plan's text does not parse: " + again.error().message;
  if (ir::print(*again) != ir::print(*made)) return "the plan's text changes when it is printed again";
  return compare(problem, got);
}

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
        cover(*made, problem, none);
        if (std::any_of(none.weight.begin(), none.weight.end(), [](int w) { return w != 0; }))
          return "an empty hop keeps pairs";
        continue;
      }
      if (auto wrong = cover(*made, problem, got); !wrong.empty()) return wrong;
    }
  }
  return compare(problem, got);
}

int count(int usual) {
  const char* times = std::getenv("WEFT_RANDOM_TIMES");
  return times != nullptr ? usual * std::atoi(times) : usual;
}

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
