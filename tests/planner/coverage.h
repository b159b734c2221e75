#pragma once

#include "compiler/ir/pattern_interpreter.h"
#include "compiler/planner/planner.h"
#include "tests/support/random_pattern.h"

#include <string>
#include <vector>

/// What a plan visits, against the meaning of its pattern pair by pair.
namespace weft::planner {

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
inline ir::Bind bind_of() { return {.d = 64, .d_v = 64}; }

inline Target target() { return find_target("cpu:x86-64-v3").value(); }

inline Options options(ir::Stationary stationary) { return {.stationary = stationary, .for_kernels = false}; }

/// Adds the plan's visits; says what is wrong, if anything.
std::string cover(const ir::Plan& plan, const RandomProblem& problem, Coverage& out);

/// Says where the weights differ from what is meant, if anywhere.
std::string compare(const RandomProblem& problem, Coverage& got);

/// Empty when the plan's visits are the pattern's pairs, and its text comes back as it was.
std::string check(const RandomProblem& problem, ir::Stationary stationary);

}  // namespace weft::planner
