#include "folder.h"
#include "problem.h"
#include "runtime/engine/kernel_state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>

/// What launches of few queries call on a CPU is a binary of its own, made when one first comes or is prepared for.
namespace weft::test {
namespace {

constexpr std::int64_t kTokens = 96, kHeads = 2, kDim = 32;
constexpr RunShape kFew = {.batch = 1, .n_q = 3, .n_k = kTokens, .heads = kHeads, .kv_heads = kHeads};
constexpr RunShape kMany = {.batch = 1, .n_q = kTokens, .n_k = kTokens, .heads = kHeads, .kv_heads = kHeads};

/// The last `rows` queries of the problem.
struct Launch {
  explicit Launch(std::int64_t rows) {
    const auto apart = (kTokens - rows) * kHeads * kDim;
    args.q = dense_view(problem.q.data() + apart, DType::f32, {1, rows, kHeads, kDim});
    args.out = dense_output(problem.out.data() + apart, DType::f32, {1, rows, kHeads, kDim});
    args.lse = {};
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// What it computed of the last rows.
  std::vector<float> rows(std::int64_t count) const {
    return {problem.out.end() - count * kHeads * kDim, problem.out.end()};
  }

  Problem problem{1, kTokens, kHeads, kDim};
  RunArgs args = problem.args();
};

class Regimes : public ::testing::Test {
 protected:
  EngineOptions own() const { return {.cache_dir = (base_.path() / "store").string()}; }
  static Kernel compiled(const Engine& engine, std::int64_t dim = kDim) {
    auto kernel = engine.compile(kLongnet, {.dim = dim, .dtype = DType::f32});
    if (!kernel) throw std::runtime_error(kernel.error().message);
    return std::move(*kernel);
  }
  static std::uint64_t compilations(const Engine& engine) { return engine.cache_stats().compiled; }

  Folder base_;
};

TEST_F(Regimes, FewQueriesAreCompiledWhenTheyCome) {
  const Engine engine(own());
  const auto kernel = compiled(engine);
  Launch many(kTokens), few(3);
  ASSERT_TRUE(kernel.run(many.args).ok());
  EXPECT_EQ(compilations(engine), 1U);
  ASSERT_TRUE(kernel.run(few.args).ok());
  EXPECT_EQ(compilations(engine), 2U);
  ASSERT_TRUE(kernel.run(few.args).ok());
  EXPECT_EQ(compilations(engine), 2U);
  // Rows are what they are in a launch of all, but for rounding.
  EXPECT_LT(largest_difference(many.rows(3), few.rows(3)), 1e-5);

  const Engine next(own());
  Launch again(3);
  const auto stored = compiled(next);
  ASSERT_TRUE(stored.run(again.args).ok());
  EXPECT_EQ(compilations(next), 0U) << "both are stored";
  for (const auto text : {ir::Regime::many_queries, ir::Regime::few_queries})
    EXPECT_FALSE(stored.state().emitted(text)) << ir::to_string(text) << ": both are noted";
  EXPECT_EQ(again.rows(3), few.rows(3));
}

TEST_F(Regimes, PrepareMakesThemBefore) {
  const Engine engine(own());
  const auto kernel = compiled(engine);
  const auto nothing = kernel.prepare(kMany);
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->compile_ms, 0);
  EXPECT_EQ(compilations(engine), 1U);
  const auto first = kernel.prepare(kFew);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_GT(first->compile_ms, 0);
  EXPECT_GT(first->emit_ms, 0);
  const auto second = kernel.prepare(kFew);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->compile_ms + second->emit_ms + second->load_ms, 0);
  EXPECT_EQ(compilations(engine), 2U);
  Launch few(3);
  EXPECT_TRUE(kernel.run(few.args).ok());
  EXPECT_EQ(compilations(engine), 2U);

  auto wrong = kFew;
  wrong.n_q = -1;
  const auto refused = kernel.prepare(wrong);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::user);
}

/// Head dims that fill no vectors: one text serves all launches.
TEST_F(Regimes, SomeKernelsHaveOne) {
  const Engine engine(own());
  const auto kernel = compiled(engine, 20);
  ASSERT_TRUE(kernel.prepare(kFew).ok());
  EXPECT_EQ(compilations(engine), 1U);
}

TEST_F(Regimes, ManyThreadsMakeThemOnce) {
  constexpr int kThreads = 8;
  const Engine engine(own());
  const auto kernel = compiled(engine);
  std::latch together(kThreads);
  std::vector<std::vector<float>> results(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : results) {
    threads.emplace_back([&] {
      Launch few(1);
      together.arrive_and_wait();
      EXPECT_TRUE(kernel.run(few.args).ok());
      mine = few.rows(1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(compilations(engine), 2U);
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

/// A kernel goes on when its engine is gone.
TEST_F(Regimes, OutliveTheEngine) {
  auto engine = std::make_unique<const Engine>(own());
  const auto kernel = compiled(*engine);
  engine.reset();
  Launch few(2);
  EXPECT_TRUE(kernel.run(few.args).ok());
}

TEST_F(Regimes, WithoutACompilerALaunchSaysWhatIsMissing) {
  { static_cast<void>(compiled(Engine(own()))); }
  auto to = own();
  to.no_compile = true;
  const auto kernel = compiled(Engine(to));
  Launch many(kTokens), few(3);
  EXPECT_TRUE(kernel.run(many.args).ok());
  const auto before = few.problem.out;
  const auto ran = kernel.run(few.args);
  ASSERT_FALSE(ran.ok());
  EXPECT_EQ(ran.error().kind, ErrorKind::environment);
  EXPECT_NE(ran.error().message.find("few queries"), std::string::npos) << ran.error().message;
  EXPECT_NE(ran.error().message.find("compiling is forbidden"), std::string::npos) << ran.error().message;
  EXPECT_EQ(std::memcmp(before.data(), few.problem.out.data(), before.size() * sizeof(float)), 0)
      << "nothing is written";
  EXPECT_FALSE(kernel.prepare(kFew).ok());
  // It is looked for anew each time.
  ASSERT_TRUE(compiled(Engine(own())).prepare(kFew).ok());
  EXPECT_TRUE(kernel.run(few.args).ok());
}

}  // namespace
}  // namespace weft::test
