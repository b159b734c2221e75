#include "tests/planner/coverage.h"

#include "compiler/ir/plan_interpreter.h"

#include <map>
#include <tuple>

namespace weft::planner {

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

}  // namespace weft::planner
