#include "tests/programs/gradient_checks.h"

#include "tests/support/backward.h"
#include "tests/support/effort.h"
#include "tests/support/random_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace weft::test {
namespace {

/// Does rounding of q alone move the gradients by more than half of what is allowed? So it does where a score jumps.
bool unstable(const BackwardProblem& p) {
  ir::Tensor q = p.q;
  for (double& value : q.data) value *= 1 + 3e-7;
  const BackwardProblem moved{.pattern = p.pattern,
                              .shape = p.shape,
                              .dtype = p.dtype,
                              .q = q,
                              .k = p.k,
                              .v = p.v,
                              .inputs = p.inputs,
                              .d_o = p.d_o,
                              .d_lse = p.d_lse};
  const auto gradients = moved.meant();
  double worst = 0;
  return !gradients || !difference(p, *gradients, &worst).empty() || worst > 0.5;
}

}  // namespace

std::optional<std::string> examine_gradients(const Program& program, const GradientWay& way, double* worst) {
  const auto pattern = lowered(program);
  if (!pattern) return {};
  const auto inputs = draw_inputs(*pattern, program.shape, program.seed);
  if (!ir::check_shapes(*pattern, program.shape, inputs)) return {};
  const auto tensors = draw_tensors(program.shape, way.dtype, program.seed);
  const auto problem =
      draw_backward(*pattern, program.shape, way.dtype, tensors.q, tensors.k, tensors.v, inputs, program.seed);
  const auto kernel = BackwardKernel::make(*pattern, program.shape, way.dtype, way.target);
  if (!kernel) return kernel.error().kind == ErrorKind::user ? std::nullopt : std::optional(kernel.error().message);
  if (unstable(problem)) return {};
  const auto gap = static_cast<std::int64_t>(program.seed % 3);
  const auto found = kernel->run(problem, {.row_gap = gap});
  if (!found) return found.error().message;
  if (auto wrong = difference(problem, *found, worst); !wrong.empty()) return wrong;
  // Threads divide the work, and not the sums.
  const auto again = kernel->run(problem, {.threads = 1 + static_cast<int>(program.seed % 7), .row_gap = gap});
  return again ? difference_of_bits(*found, *again) : again.error().message;
}

void check_random_gradients(const GradientWay& way, std::uint64_t first_seed) {
  const int programs = programs_on(way.target, way.programs, 2);
  int compared = 0;
  double worst = 0;
  for (int i = 0; i < programs; ++i) {
    const auto seed = first_seed + static_cast<std::uint64_t>(i);
    const bool is_long = i % 4 == 0;
    Program program = random_program(
        seed, {.most_tokens = is_long ? way.most_tokens : 40, .most_heads = 3, .nesting = 2, .any_dims = i % 3 == 0});
    program.dtype = way.dtype;
    const auto wrong = examine_gradients(program, way, &worst);
    if (!wrong) continue;
    ++compared;
    if (wrong->empty()) continue;
    const auto fails = [&](const Program& p) { return !examine_gradients(p, way).value_or("").empty(); };
    const Program small = shrink(program, fails, 60);
    FAIL() << way.target << ", seed " << seed << ": " << *wrong << "\n"
           << to_file(small) << examine_gradients(small, way).value_or("");
  }
  ::testing::Test::RecordProperty("worst", fmt::format("{}", worst));
  EXPECT_GT(compared, programs / 3);
}

}  // namespace weft::test
