#pragma once

#include "tests/support/program.h"

#include <cstdint>

namespace weft::test {

struct ProgramOptions {
  std::int64_t most_tokens = 40;
  std::int64_t most_heads = 6;
  int nesting = 3;       ///< of operators between sets and of expressions
  bool any_dims = true;  ///< head dims that are no multiple of 8, too
};

/// A program over the whole language: every set of semantics section 3 nested with `! - & |`, blocks, neighborhoods in
/// one to three dimensions, conditions with lists and inputs, parameters of every type and values for them, constants,
/// `let`, `use`, branches with heads, every combine mode, head policy and phase, scores, scales, dropout, shared
/// heads, other ends and offsets. Mostly in order, and mostly it keeps something. A seed gives the same program on
/// every platform.
Program random_program(std::uint64_t seed, const ProgramOptions& options = {});

}  // namespace weft::test
