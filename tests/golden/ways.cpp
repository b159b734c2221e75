#include "tests/golden/ways.h"

#include "compiler/ir/plan_interpreter.h"
#include "compiler/planner/planner.h"
#include "tests/codegen/any_kernel.h"
#include "tests/golden/gradients.h"

namespace weft::golden {
namespace {

Result<ir::Outcome> interpret(const GoldenCase& g) {
  return ir::interpret(g.pattern, g.shape, g.q, g.k, g.v, g.inputs);
}

Result<ir::Gradients> interpret_gradients(const GoldenCase& g) {
  return ir::interpret_gradients(g.pattern, g.shape, g.q, g.k, g.v, g.inputs, g.gradients->d_o);
}

std::string skip_nothing(const GoldenCase&) { return {}; }

ir::Bind bind_of(const GoldenCase& g) { return {.d = g.shape.d, .d_v = g.shape.d_v, .dtype = g.dtype}; }

/// What the planner says where kernels of the target lack something.
std::string refused_for(const GoldenCase& g, const Target& target) {
  const auto plan = planner::plan(g.pattern, bind_of(g), target);
  if (plan.ok() || plan.error().diagnostics.empty()) return {};
  return plan.error().diagnostics.front().message;
}

Result<ir::Outcome> walk_plan(const GoldenCase& g) {
  WEFT_TRY(const ir::Plan plan, planner::plan(g.pattern, bind_of(g), host_target()));
  return ir::interpret_plan(plan, g.shape, g.q, g.k, g.v, g.inputs);
}

Result<ir::Outcome> run_on(const GoldenCase& g, const Target& target) {
  WEFT_TRY(const auto kernel, testing::AnyKernel::make(g.pattern, bind_of(g), target));
  return kernel.run(g.shape, g.q, g.k, g.v, g.inputs);
}

Result<ir::Outcome> run_on_cpu(const GoldenCase& g) { return run_on(g, host_target()); }
Result<ir::Outcome> emulate_sm_61(const GoldenCase& g) { return run_on(g, find_target("sm_61").value()); }
std::string refused_by_sm_61(const GoldenCase& g) { return refused_for(g, find_target("sm_61").value()); }

}  // namespace

namespace {

Result<ir::Gradients> gradients_on_sm_61(const GoldenCase& g) { return gradients_on(g, "emulate:sm_61"); }

}  // namespace

Result<ir::Gradients> gradients_on_cpu(const GoldenCase& g) { return gradients_on(g, "cpu"); }

std::string refused(const GoldenCase& g) { return refused_for(g, host_target()); }

const Way kWays[4] = {
    {"interpreter", interpret, skip_nothing, interpret_gradients},
    {"plan", walk_plan, refused},
    {"cpu", run_on_cpu, refused, gradients_on_cpu},
    {"sm_61", emulate_sm_61, refused_by_sm_61, gradients_on_sm_61},
};

}  // namespace weft::golden
