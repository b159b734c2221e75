#include "tests/planner/coverage.h"

namespace weft::planner {

std::string check(const RandomProblem& problem, ir::Stationary stationary, const Target& on) {
  const auto made = plan(problem.pattern, bind_of(), on, options(stationary));
  if (!made.ok()) {
    // Sets may fall into more pieces than the planner keeps; that is said, not computed wrongly.
    const bool too_complex = !made.error().diagnostics.empty() && made.error().diagnostics[0].code == "E0405";
    return too_complex ? "" : made.error().message;
  }
  Coverage got(problem.pattern, problem.shape);
  if (auto wrong = got.add(*made, problem.inputs); !wrong.empty()) return wrong;
  auto again = ir::parse_plan(ir::print(*made));
  if (!again.ok()) return "the plan's text does not parse: " + again.error().message;
  if (ir::print(*again) != ir::print(*made)) return "the plan's text changes when it is printed again";
  return got.difference(problem.pattern, problem.inputs);
}

}  // namespace weft::planner
