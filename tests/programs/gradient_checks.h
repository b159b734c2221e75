#pragma once

#include "tests/support/program.h"

#include <optional>
#include <string>

/// Gradients of random programs, which kernels of one target compute, against the interpreter's.
namespace weft::test {

struct GradientWay {
  const char* target;
  int programs;
  std::int64_t most_tokens;
  ir::DType dtype = ir::DType::f32;
};

/// What is wrong with a program's gradients; nothing where it has none to compare. `worst`: see backward.h.
std::optional<std::string> examine_gradients(const Program& program, const GradientWay& way, double* worst = nullptr);

/// So many programs from this seed on, of which a third has to be compared. A failure is shown by a small program.
void check_random_gradients(const GradientWay& way, std::uint64_t first_seed);

}  // namespace weft::test
