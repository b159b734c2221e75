#pragma once

#include "compiler/ir/pattern.h"
#include "compiler/ir/plan.h"
#include "tests/codegen/arguments.h"
#include "tests/support/program.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

/// Everything that must hold for any program, in one function.
namespace weft::test {

/// What is wrong, and which check says so; `stage` is empty where all is well.
struct Finding {
  std::string stage;  ///< parse format check lower print shapes interpret plan text pairs values, or a target
  std::string what = {};
  bool ok() const { return stage.empty(); }
};

/// How far programs came: a check that nothing reaches proves nothing.
struct Reached {
  int programs = 0;
  int refused = 0;  ///< by the front end, the lowering or the sizes, with a code or a sentence
  int interpreted = 0;
  int planned = 0;
  int unstable = 0;  ///< kernels are not compared: rounding of q alone moves results by more than the bounds
  std::map<std::string, int> kernels = {};  ///< compared, by target
  std::map<std::string, int> codes = {};    ///< of refusals
};

/// A kernel that is run by other means than AnyKernel's: on a GPU.
struct Elsewhere {
  struct Problem {
    const ir::Pattern& pattern;
    const ir::Bind& bind;
    const ir::Shape& shape;
    const Tensors& tensors;
    const ir::InputValues& inputs;
    const testing::RunOptions& options;
  };
  std::string name = {};
  std::function<Result<ir::Outcome>(const Problem&)> run = {};
};

struct Checks {
  /// Kernels to run, by target; empty: plans only. A kernel for the CPU costs a fifth of a second, an emulated one
  /// more.
  std::vector<std::string> targets = {};
  Elsewhere elsewhere = {};
  /// A planted fault: what the planner is given in place of the pattern.
  std::function<ir::Pattern(const ir::Pattern&)> twist = {};
};

Finding examine(const Program& program, const Checks& checks, Reached& reached);

}  // namespace weft::test
