/// Random programs over the whole language on this machine's GPU, by the public face: prepass, lists and summaries run
/// there as well. Label `device`, see device_test.cpp.

#include "tests/device/device_runner.h"
#include "tests/device/engine_runner.h"
#include "tests/programs/checks.h"
#include "tests/support/effort.h"
#include "tests/support/random_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace weft::test {
namespace {

/// Slices of the seeds, which run beside one another.
constexpr std::uint64_t kSlices = 10, kPrograms = 15;

class DevicePrograms : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(DevicePrograms, HoldTogether) {
  const auto target = testing::device_row();
  if (!target) GTEST_SKIP() << target.error().message;
  const Checks checks{
      .elsewhere = {.name = target->name, .run = [&](const Elsewhere::Problem& p) -> Result<ir::Outcome> {
                      WEFT_TRY(const auto kernel, testing::EngineKernel::make(p.pattern, p.bind, *target, p.shape));
                      return kernel.run(p.shape, p.tensors.q, p.tensors.k, p.tensors.v, p.inputs, p.options);
                    }}};
  const std::uint64_t count = kPrograms * static_cast<std::uint64_t>(test::random_times());
  const std::uint64_t first = 20'000 + GetParam() * count;
  Reached reached;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const ProgramOptions options = seed % 6 == 5 ? ProgramOptions{.most_tokens = 200, .most_heads = 3, .nesting = 2}
                                                 : ProgramOptions{.any_dims = seed % 3 == 0};
    const Program program = random_program(seed, options);
    const Finding found = examine(program, checks, reached);
    ASSERT_TRUE(found.ok()) << "seed " << seed << ", " << found.stage << ": " << found.what << "\n" << to_file(program);
  }
  EXPECT_GT(reached.kernels[target->name], static_cast<int>(count) / 3) << "few came as far as the GPU";
}

INSTANTIATE_TEST_SUITE_P(, DevicePrograms, ::testing::Range<std::uint64_t>(0, kSlices));

}  // namespace
}  // namespace weft::test
