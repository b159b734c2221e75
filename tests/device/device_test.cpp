/// Kernels on this machine's GPU: golden cases, random patterns, and the engine. Label `device`: run by
/// `./dev test --device`, skipped where there is no GPU. DeviceKernel runs a plan's kernel alone, with lists and
/// summaries that the host made, in any cut of its tiles; EngineKernel runs all that users run.

#include "runtime/cuda/memory.h"
#include "runtime/engine/cuda_executor.h"
#include "tests/codegen/random_check.h"
#include "tests/device/device_runner.h"
#include "tests/device/engine_runner.h"
#include "tests/device/gpu_packed.h"
#include "tests/device/gpu_ring.h"
#include "tests/engine/problem.h"
#include "tests/golden/case.h"
#include "tests/support/effort.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tuple>

namespace weft::testing {
namespace {

#define NEEDS_GPU(row)                        \
  const auto row##_or = device_row();         \
  if (!row##_or) {                            \
    GTEST_SKIP() << row##_or.error().message; \
  }                                           \
  const Target& row = *row##_or

class DeviceGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(DeviceGolden, Case) {
  NEEDS_GPU(target);
  const auto golden = golden::load(GetParam());
  ASSERT_TRUE(golden.ok()) << golden.error().message;
  const ir::Bind bind{.d = golden->shape.d, .d_v = golden->shape.d_v, .dtype = golden->dtype};
  const auto kernel = DeviceKernel::make(golden->pattern, bind, target);
  if (!kernel && !kernel.error().diagnostics.empty()) GTEST_SKIP() << kernel.error().message;  // not in kernels yet
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto found = kernel->run(golden->shape, golden->q, golden->k, golden->v, golden->inputs);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(golden::difference(*golden, *found), "");
  const auto whole = EngineKernel::make(golden->pattern, bind, target, golden->shape);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  const auto of_engine = whole->run(golden->shape, golden->q, golden->k, golden->v, golden->inputs);
  ASSERT_TRUE(of_engine.ok()) << of_engine.error().message;
  EXPECT_EQ(golden::difference(*golden, *of_engine), "") << "by the engine";
}

INSTANTIATE_TEST_SUITE_P(, DeviceGolden, ::testing::ValuesIn(golden::case_names()),
                         [](const auto& of) { return of.param; });

TEST(DeviceRing, HasTheBitsOfOneLaunch) {
  NEEDS_GPU(target);
  const Engine engine({.no_cache = true});
  EXPECT_EQ(test::wrong_with_gpu_rings(
                engine, "cuda",
                {{}, {.layout = RingLayout::zigzag}, {.layout = RingLayout::striped}, {.carrier = RingCarrier::heads}}),
            "")
      << target.name;
}

TEST(DeviceRing, CutsKeys) {
  NEEDS_GPU(target);
  EXPECT_EQ(test::wrong_with_gpu_rings_that_cut(Engine({.no_cache = true}), "cuda"), "") << target.name;
}

TEST(DevicePacked, HasTheBitsOfEachSequence) {
  NEEDS_GPU(target);
  EXPECT_EQ(test::wrong_with_packed_sequences(Engine({.no_cache = true}), "cuda", {DType::f16, DType::f32}), "")
      << target.name;
}

/// Slices of the seeds, which run beside one another.
class DeviceRandom : public ::testing::TestWithParam<std::tuple<ir::DType, int>> {};

TEST_P(DeviceRandom, MatchTheInterpreter) {
  NEEDS_GPU(target);
  const int count = 5 * test::random_times();
  const auto [dtype, slice] = GetParam();
  const auto as_they_are = [](const RunOptions& options, std::uint64_t) { return options; };
  for (int i = slice * count; i < (slice + 1) * count; ++i) {
    const auto seed = static_cast<std::uint64_t>(i) + 9000;
    const test::RandomOptions options{.most_tokens = i % 3 == 0 ? 300 : 60, .nesting = i % 3 == 0 ? 1 : 3};
    const auto problem = with_dims(test::random_problem(seed, options), seed);
    ASSERT_EQ(check_random<DeviceKernel>(problem, target, dtype, seed, i % 5 == 0, as_they_are), "")
        << "seed " << seed << "\n"
        << test::describe(problem);
  }
}

INSTANTIATE_TEST_SUITE_P(, DeviceRandom,
                         ::testing::Combine(::testing::Values(ir::DType::f32, ir::DType::f16, ir::DType::bf16),
                                            ::testing::Range(0, 4)),
                         [](const auto& of) {
                           return fmt::format("{}_{}", ir::to_string(std::get<0>(of.param)), std::get<1>(of.param));
                         });

/// The public face, from text to results.
TEST(Device, EngineOnTheDefaultStream) {
  NEEDS_GPU(target);
  const Engine engine({.no_cache = true});
  const auto kernel = engine.compile(test::kLongnet, {.dim = 64, .dtype = DType::f32, .target = "cuda"});
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  EXPECT_EQ(kernel->target(), target.name);
  test::Problem problem(2, 1000, 3, 64), expected = problem;
  const auto upload = [&](const std::vector<float>& values) {
    return cuda::Buffer::upload(device_of(*kernel), values.data(), values.size() * sizeof(float)).value();
  };
  const auto q = upload(problem.q), k = upload(problem.k), v = upload(problem.v), out = upload(problem.out),
             lse = upload(problem.lse);
  auto args = problem.args();
  EXPECT_FALSE(kernel->run(args).ok()) << "host memory";
  args.q.data = q.data();
  args.k.data = k.data();
  args.v.data = v.data();
  args.out.data = out.data();
  args.lse.data = lse.data();
  for (int i = 0; i < 3; ++i) {
    const auto status = kernel->run(args);
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  ASSERT_TRUE(out.copy_out(problem.out.data(), problem.out.size() * sizeof(float)).ok());
  ASSERT_TRUE(lse.copy_out(problem.lse.data(), problem.lse.size() * sizeof(float)).ok());
  const auto meaning = engine.compile(test::kLongnet, {.dim = 64, .dtype = DType::f32, .target = "interpreter"});
  ASSERT_TRUE(meaning->run(expected.args()).ok());
  EXPECT_LT(test::largest_difference(problem.out, expected.out), 2e-5);
  EXPECT_LT(test::largest_difference(problem.lse, expected.lse), 2e-5);
}

}  // namespace
}  // namespace weft::testing
