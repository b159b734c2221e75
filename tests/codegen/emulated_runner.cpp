#include "tests/codegen/emulated_runner.h"

#include "codegen/cuda/emit.h"
#include "compiler/planner/planner.h"

namespace weft::testing {

Result<EmulatedKernel> EmulatedKernel::make(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target,
                                            const emulate::Options& options) {
  WEFT_TRY(const ir::Plan plan, planner::plan(pattern, bind, target));
  return make(plan, target, options);
}

Result<EmulatedKernel> EmulatedKernel::make(const ir::Plan& plan, const Target& target,
                                            const emulate::Options& options) {
  EmulatedKernel out;
  out.plan_ = plan;
  out.target_ = target;
  out.options_ = options;
  WEFT_CHECK(out.program(ir::Regime::many_queries));
  return out;
}

Result<std::shared_ptr<const emulate::Program>> EmulatedKernel::program(ir::Regime regime) const {
  const auto source = codegen::cuda::emit(plan_, target_, regime);
  return emulate::Program::build(source.text, source.symbol, options_);  // which remembers it
}

Result<ir::Outcome> EmulatedKernel::run(const ir::Shape& shape, const ir::Tensor& q, const ir::Tensor& k,
                                        const ir::Tensor& v, const std::vector<ir::Tensor>& inputs,
                                        const EmulatedOptions& options, emulate::Report* report) const {
  WEFT_TRY(Arguments arguments, Arguments::make(plan_, shape, q, k, v, inputs, options.layout));
  if (options.deny_all) arguments.deny_all();
  emulate::Launch launch;
  launch.threads = arguments.threads();
  launch.shared_bytes = codegen::cuda::shared_memory(plan_, arguments.regime()).with_terms(arguments.most_terms());
  WEFT_TRY(const auto program, program(arguments.regime()));
  launch.args_bytes = sizeof(weft_args);
  launch.order = options.order;
  launch.seed = options.seed;
  launch.workers = options.workers;
  for (const Span& span : arguments.spans()) {
    launch.memory.push_back({span.begin, span.bytes, span.writable, span.name});
  }
  WEFT_CHECK(arguments.each_call(options.tiles_per_call, [&](const weft_args& args) -> Status {
    launch.args = &args;
    launch.blocks = args.tile_end - args.tile_begin;
    WEFT_TRY(const emulate::Report now, program->launch(launch));
    if (report != nullptr) *report += now;
    if (now.faults.empty()) return done;
    Error error = internal_error("the emulated kernel has faults: " + now.faults.front().text);
    for (const auto& fault : now.faults) error.notes.push_back(fault.text);
    return error;
  }));
  return arguments.outcome();
}

}  // namespace weft::testing
