#pragma once

#include "compiler/ir/pattern.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/tensor.h"

#include <cstdint>
#include <functional>
#include <string>

/// Random patterns for proofs by example. A seed gives the same problem on every platform.
namespace weft::test {

/// A pattern with sizes and inputs that fit it; small enough to draw.
struct RandomProblem {
  ir::Pattern pattern;
  ir::Shape shape;
  ir::InputValues inputs;
};

struct RandomOptions {
  std::int64_t most_tokens = 40;
  std::int64_t most_heads = 6;
  std::int64_t most_branches = 4;
  int nesting = 3;          ///< of `& | - !`
  bool lengths = true;      ///< sets read from an input
  bool complements = true;  ///< `!` and `-`
  bool other_ends = true;   ///< n_q != n_k and offsets
};

/// Sets `all causal window segment dilated sink prefix lengths`, combined and kept; every combine
/// mode, head policy and phase; segments that rates do not divide and that exceed the tokens.
RandomProblem random_problem(std::uint64_t seed, const RandomOptions& options = {});

/// The pattern as .weft text that lowers to the same pattern, with the sizes as comments.
std::string describe(const RandomProblem& problem);

/// The smallest problem found by greedy steps for which `fails` still holds. `fails(problem)` must
/// hold; it is called `budget` times at most.
RandomProblem shrink(RandomProblem problem, const std::function<bool(const RandomProblem&)>& fails, int budget = 2000);

}  // namespace weft::test
