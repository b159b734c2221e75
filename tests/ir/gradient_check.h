#pragma once

#include "compiler/ir/pattern_gradients.h"
#include "tests/ir/problem.h"

#include <string>

namespace weft::ir {

/// A problem, and what its gradients begin with.
struct GradientProblem {
  TestProblem of;
  Tensor d_o, d_lse;

  explicit GradientProblem(TestProblem problem, std::uint64_t seed = 0);
  Result<Gradients> gradients() const;
};

/// Central differences of the interpreter's forward beside gradients: along random directions, and element by element.
struct Checked {
  std::string wrong = {};  ///< the first difference, in words
  int asked = 0;
  int lost = 0;      ///< places where the forward has a kink or a jump
  double worst = 0;  ///< difference over what is allowed
};
/// Lists of keys stay as they are chosen at the middle, and so does the mix of `joint detached`.
Checked check_gradients(const GradientProblem& problem, const Gradients& found, std::uint64_t seed);

}  // namespace weft::ir
