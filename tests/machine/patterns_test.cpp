/// Patterns of the project as machine code, in f16, against the interpreter; those of examples/ with gradients.

#include "tests/codegen/random_check.h"
#include "tests/device/engine_runner.h"
#include "tests/machine/fixture.h"
#include "tests/support/backward.h"
#include "tests/support/effort.h"
#include "tests/support/program.h"
#include "tests/support/shipped.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace weft::test {
namespace {

constexpr std::uint64_t kSeed = 17;

/// Not a multiple of any tile.
ir::Shape shape_of(const ir::Pattern& pattern) {
  const std::int64_t heads = pattern.heads.value_or(2);
  return {.batch = 1, .n_q = 150, .n_k = 150, .heads = heads, .kv_heads = heads, .d = 32, .d_v = 32};
}

struct KnownKernel {
  static Result<testing::EngineKernel> make(const ir::Pattern& pattern, const ir::Bind& bind, const Target&,
                                            const ir::Shape& shape) {
    return testing::EngineKernel::make(engine_of_machine(), pattern, bind, shape);
  }
};

class MachinePatterns : public ::testing::TestWithParam<std::tuple<int, const char*>> {};

TEST_P(MachinePatterns, MatchTheInterpreter) {
  const auto [sm, folder] = GetParam();
  if (const auto why = become(sm); !why.empty()) GTEST_SKIP() << why;
  const Target target = find_target(fmt::format("sm_{}", sm)).value();
  const bool with_gradients = folder == std::string_view("examples");
  std::size_t number = 0;
  int compared = 0, decoded = 0, gradients = 0;
  for (auto& [file, pattern] : shipped_patterns(folder)) {
    const std::size_t own = number++;
    if (!is_run_on(sm, own, 2)) continue;
    const std::string name = std::filesystem::path(file).filename().string() + ": " + pattern.name;
    pattern.dim.reset();
    pattern.dim_v.reset();
    pattern.dtype.reset();
    const auto shape = shape_of(pattern);
    const auto inputs = draw_inputs(pattern, shape, kSeed);
    if (!ir::check_shapes(pattern, shape, inputs)) continue;
    const auto as_they_are = [](const testing::RunOptions& options, std::uint64_t) { return options; };
    const auto check = [&](const ir::Shape& of, const ir::InputValues& its_inputs) {
      EXPECT_EQ(testing::check_random<KnownKernel>({pattern, of, its_inputs}, target, ir::DType::f16, kSeed, false,
                                                   as_they_are),
                "")
          << name << ", " << of.n_q << " queries";
    };
    check(shape, inputs);
    ++compared;
    // As in decoding, on one architecture; a last block of 64 keys has two.
    ir::Shape of_one = shape;
    of_one.n_q = 1;
    of_one.n_k = 130;
    of_one.offset = {129};
    const bool is_own = !tries_all() || is_turn_of(sm, own);
    if (const auto its = draw_inputs(pattern, of_one, kSeed); is_own && ir::check_shapes(pattern, of_one, its)) {
      check(of_one, its);
      ++decoded;
    }
    if (!with_gradients) continue;
    const auto kernel = BackwardKernel::make(engine_of_machine(), pattern, shape, ir::DType::f16, "cuda");
    if (!kernel && kernel.error().kind == ErrorKind::user) continue;
    ASSERT_TRUE(kernel.ok()) << name << ": " << kernel.error().message;
    const auto tensors = draw_tensors(shape, ir::DType::f16, kSeed);
    const auto problem = draw_backward(pattern, shape, ir::DType::f16, tensors.q, tensors.k, tensors.v, inputs, kSeed);
    const auto found = kernel->run(problem);
    ASSERT_TRUE(found.ok()) << name << ": " << found.error().message;
    EXPECT_EQ(difference(problem, *found), "") << name;
    ++gradients;
  }
  EXPECT_GE(compared, 3);
  EXPECT_GE(decoded, 2);
  EXPECT_GT(gradients, with_gradients ? 1 : -1);
}

INSTANTIATE_TEST_SUITE_P(, MachinePatterns,
                         ::testing::Combine(::testing::ValuesIn(kArchitectures),
                                            ::testing::Values("examples", "tests/patterns")),
                         [](const auto& of) {
                           const std::string folder = std::get<1>(of.param);
                           return fmt::format("sm_{}_{}", std::get<0>(of.param),
                                              folder == "examples" ? folder : "patterns");
                         });

}  // namespace
}  // namespace weft::test
