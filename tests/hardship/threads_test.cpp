/// Where the system gives no thread, one does it all.

#include "faults.h"
#include "tests/engine/problem.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft::test {
namespace {

/// Long enough a text that it is compiled in parts, each by a thread.
constexpr const char* kSeveral =
    "pattern p { branches dilated(segments: [16, 32, 64], rates: [1, 2, 4]); branch window(3, 3); "
    "branch blocks(4, random(2)); score s * 0.5 + tanh(s); dropout 0.25; keep causal; }";

TEST(Threads, OneDoesWhatManyWould) {
  for (const char* text : {kLongnet, kSeveral}) {
    const CompileOptions options{.dim = 64, .dtype = DType::f32};
    Problem expected(2, 128, 4, 64), problem(2, 128, 4, 64);
    {
      const Engine engine({.no_cache = true, .threads = 4});
      const auto kernel = engine.compile(text, options);
      ASSERT_TRUE(kernel.ok()) << kernel.error().message;
      ASSERT_TRUE(kernel->run(expected.args()).ok());
    }
    const NoThreads none;
    const Engine engine({.no_cache = true, .threads = 4});
    const auto kernel = engine.compile(text, options);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const auto status = kernel->run(problem.args());
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(problem.out, expected.out);
    EXPECT_GT(threads_refused(), 0) << "no thread was asked for";
  }
}

TEST(Threads, TheyComeWhenTheSystemGivesThemAgain) {
  const Engine engine({.no_cache = true, .threads = 4});
  const auto kernel = engine.compile(kLongnet, {.dim = 64, .dtype = DType::f32});
  ASSERT_TRUE(kernel.ok());
  Problem alone(2, 128, 4, 64), together(2, 128, 4, 64);
  {
    const NoThreads none;
    ASSERT_TRUE(kernel->run(alone.args()).ok());
  }
  std::thread other([&] { EXPECT_TRUE(kernel->run(together.args()).ok()); });
  other.join();
  EXPECT_EQ(alone.out, together.out);
}

}  // namespace
}  // namespace weft::test
