#pragma once

#include "compiler/base/result.h"
#include "compiler/ir/lower.h"
#include "compiler/ir/pattern.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/ir/tensor.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// Programs: a .weft text with the sizes and values to run it on. A program is one file: what the text does not say
/// stands in comments at its end, so that a failing one can be sent around and run again.
namespace weft::test {

struct Program {
  std::string text = {};                  ///< without the comments of `to_file`
  std::string pattern = {};               ///< which pattern of the text
  std::vector<std::string> defines = {};  ///< `name=value`, as behind -D
  ir::Shape shape = {};
  ir::DType dtype = ir::DType::f32;
  bool branch_lse = false;
  std::uint64_t seed = 0;  ///< of all values
};

std::string to_file(const Program& program);
Result<Program> from_file(std::string_view text);

/// Front end and lowering. Errors carry the diagnostics of whichever stage refused.
Result<ir::Pattern> lowered(const Program& program);

/// Values for every input, by the beginning of its name: `doc…` few different numbers in runs, `len…` lengths of the
/// sequence, `mask…` and `flag…` 0 and 1, `near…` small positions, others normally distributed. Element i of an
/// input depends on the seed, the name and i alone, so that a smaller program keeps what it still has.
ir::InputValues draw_inputs(const ir::Pattern& pattern, const ir::Shape& shape, std::uint64_t seed);

struct Tensors {
  ir::Tensor q, k, v;
};

/// Values that the type holds exactly.
Tensors draw_tensors(const ir::Shape& shape, ir::DType dtype, std::uint64_t seed);

/// The smallest program found by greedy steps for which `fails` still holds: statements, branches, parts of
/// expressions and parameters go, numbers and lengths fall. `fails(program)` must hold; no step begins after `seconds`.
Program shrink(Program program, const std::function<bool(const Program&)>& fails, double seconds);

}  // namespace weft::test
