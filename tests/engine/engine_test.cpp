/// The public face: one engine, kernels from text, launches on the caller's memory.

#include "folder.h"
#include "problem.h"
#include "runtime/engine/emulate_executor.h"

#include <gtest/gtest.h>

#include <limits>

#include <cstdlib>
#include <filesystem>
#include <thread>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class EngineTest : public ::testing::Test {
 protected:
  EngineOptions options(int threads = 0) { return {.cache_dir = store_, .threads = threads}; }
  static Kernel compile(const Engine& engine, const std::string& text, CompileOptions options) {
    auto kernel = engine.compile(text, options);
    if (!kernel) throw std::runtime_error(kernel.error().message);
    return *kernel;
  }
  Folder folder_;
  std::string store_ = folder_.path();
};

CompileOptions f32(std::int64_t dim, std::string target = "cpu") {
  return {.dim = dim, .dtype = DType::f32, .target = std::move(target)};
}

TEST_F(EngineTest, CpuAgreesWithTheInterpreter) {
  const Engine engine(options());
  for (auto [batch, tokens, heads] : {std::tuple{1, 1, 1}, std::tuple{2, 77, 3}, std::tuple{1, 200, 5}}) {
    Problem a(batch, tokens, heads, 32), b = a;
    ASSERT_TRUE(compile(engine, kLongnet, f32(32)).run(a.args()).ok());
    ASSERT_TRUE(compile(engine, kLongnet, f32(32, "interpreter")).run(b.args()).ok());
    EXPECT_LT(largest_difference(a.out, b.out), 2e-5);
    EXPECT_LT(largest_difference(a.lse, b.lse), 2e-5);
  }
}

TEST_F(EngineTest, OriginsInOrder) {
  {
    const Engine engine(options());
    const auto first = compile(engine, kLongnet, f32(32));
    EXPECT_EQ(first.origin(), CacheOrigin::miss);
    EXPECT_GT(first.compile_ms(), 0);
    EXPECT_EQ(compile(engine, kLongnet, f32(32)).origin(), CacheOrigin::memory);
    EXPECT_NE(compile(engine, kLongnet, f32(64)).origin(), CacheOrigin::memory);
  }
  const Engine later(options());
  const auto stored = compile(later, kLongnet, f32(32));
  EXPECT_EQ(stored.origin(), CacheOrigin::disk);
  EXPECT_EQ(stored.compile_ms(), 0);
  Problem problem(1, 50, 2, 32);
  EXPECT_TRUE(stored.run(problem.args()).ok());
}

TEST_F(EngineTest, NumbersOfAPatternAreNotCompiledIn) {
  const Engine engine(options());
  EXPECT_EQ(compile(engine, "pattern a { keep window(7, 0); }", f32(32)).origin(), CacheOrigin::miss);
  EXPECT_EQ(compile(engine, "pattern b { keep window(31, 0); }", f32(32)).origin(), CacheOrigin::disk);
}

TEST_F(EngineTest, TextsOfEveryStage) {
  const Engine engine(options());
  const auto kernel = compile(engine, kLongnet, f32(32));
  EXPECT_NE(kernel.pattern_text().find("pattern longnet"), std::string::npos);
  EXPECT_NE(kernel.plan_text().find("weft plan"), std::string::npos);
  EXPECT_NE(kernel.source_text().find("define void @weft_kernel"), std::string::npos);
  EXPECT_EQ(kernel.target().substr(0, 4), "cpu:");
}

TEST_F(EngineTest, SameBytesForAnyThreadsAndBatch) {
  Problem one(1, 150, 3, 32);
  const Engine single(options(1)), many(options(3));
  ASSERT_TRUE(compile(single, kLongnet, f32(32)).run(one.args()).ok());
  Problem again(1, 150, 3, 32);
  ASSERT_TRUE(compile(many, kLongnet, f32(32)).run(again.args()).ok());
  EXPECT_EQ(one.out, again.out);
  EXPECT_EQ(one.lse, again.lse);

  // The same sequence as the second entry of a batch.
  Problem both(2, 150, 3, 32);
  for (auto [to, from] : {std::pair{&both.q, &one.q}, std::pair{&both.k, &one.k}, std::pair{&both.v, &one.v}}) {
    std::copy(from->begin(), from->end(), to->begin() + std::ssize(*from));
  }
  ASSERT_TRUE(compile(many, kLongnet, f32(32)).run(both.args()).ok());
  EXPECT_TRUE(std::equal(one.out.begin(), one.out.end(), both.out.begin() + std::ssize(one.out)));
}

TEST_F(EngineTest, StridedViewsGiveTheSameBytes) {
  const Engine engine(options());
  const auto kernel = compile(engine, kLongnet, f32(32));
  Problem dense(2, 60, 3, 32), strided = dense;
  ASSERT_TRUE(kernel.run(dense.args()).ok());

  // [B, H, n, d] in memory, in rows that are four elements longer than they need.
  const std::int64_t row = 36;
  const auto move = [&](const std::vector<float>& from) {
    std::vector<float> to(static_cast<std::size_t>(2 * 3 * 60 * row), -1.0F);
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t n = 0; n < 60; ++n)
        for (std::int64_t h = 0; h < 3; ++h)
          for (std::int64_t c = 0; c < 32; ++c)
            to[static_cast<std::size_t>(((b * 3 + h) * 60 + n) * row + c)] =
                from[static_cast<std::size_t>(((b * 60 + n) * 3 + h) * 32 + c)];
    return to;
  };
  const auto q = move(strided.q), k = move(strided.k), v = move(strided.v);
  auto out = move(strided.out);
  auto args = strided.args();
  args.q.data = q.data();
  args.k.data = k.data();
  args.v.data = v.data();
  args.out.data = out.data();
  for (auto* stride : {&args.q.stride, &args.k.stride, &args.v.stride, &args.out.stride})
    *stride = {180 * row, row, 60 * row, 1};
  ASSERT_TRUE(kernel.run(args).ok());
  auto expected = move(dense.out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i % row < 32)
      EXPECT_EQ(out[i], expected[i]) << i;
    else
      ASSERT_EQ(out[i], -1.0F) << "written behind a row";
  }
}

TEST_F(EngineTest, OffsetsPlaceTheRows) {
  const Engine engine(options());
  const auto kernel = compile(engine, kCausal, f32(32));
  Problem whole(2, 40, 2, 32);
  ASSERT_TRUE(kernel.run(whole.args()).ok());

  // Eight of the rows again: in the first entry from position 32, in the second from position 5.
  const std::vector<std::int64_t> offset = {32, 5};
  std::vector<float> q, out(2 * 8 * 2 * 32);
  for (std::size_t b = 0; b < 2; ++b) {
    const auto* rows = whole.q.data() + (static_cast<std::int64_t>(b) * 40 + offset[b]) * 64;
    q.insert(q.end(), rows, rows + 8 * 64);
  }
  auto args = whole.args();
  args.q = dense_view(q.data(), DType::f32, {2, 8, 2, 32});
  args.out = dense_output(out.data(), DType::f32, {2, 8, 2, 32});
  args.lse = {};
  args.offset = offset;
  ASSERT_TRUE(kernel.run(args).ok());
  for (std::size_t b = 0; b < 2; ++b) {
    const auto* rows = whole.out.data() + (static_cast<std::int64_t>(b) * 40 + offset[b]) * 64;
    const std::vector<float> expected(rows, rows + 8 * 64);
    const std::vector<float> found(out.begin() + static_cast<std::ptrdiff_t>(b * 8 * 64),
                                   out.begin() + static_cast<std::ptrdiff_t>((b + 1) * 8 * 64));
    EXPECT_LT(largest_difference(found, expected), 1e-6) << b;
  }
}

TEST_F(EngineTest, WorkspaceOfTheCaller) {
  const Engine engine(options(2));
  const auto kernel = compile(engine, kLongnet, f32(32));
  Problem pooled(1, 100, 2, 32), own = pooled;
  ASSERT_TRUE(kernel.run(pooled.args()).ok());
  const auto bytes = kernel.workspace({.batch = 1, .n_q = 100, .n_k = 100, .heads = 2, .kv_heads = 2});
  ASSERT_TRUE(bytes.ok());
  std::vector<std::byte> buffer(*bytes + 1, std::byte{0x5a});
  auto args = own.args();
  args.workspace = std::span(buffer).subspan(1);  // at an odd address on purpose
  ASSERT_TRUE(kernel.run(args).ok());
  EXPECT_EQ(own.out, pooled.out);
  EXPECT_EQ(buffer[0], std::byte{0x5a});
  args.workspace = std::span(buffer).subspan(1, *bytes / 2);
  const auto refused = kernel.run(args);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("workspace"), std::string::npos);
}

TEST_F(EngineTest, ManyThreadsShareEngineAndKernel) {
  const Engine engine(options(2));
  Problem expected(1, 90, 3, 32);
  ASSERT_TRUE(compile(engine, kLongnet, f32(32)).run(expected.args()).ok());
  std::vector<std::thread> threads;
  std::vector<int> good(6, 0);
  for (std::size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        Problem mine(1, 90, 3, 32);
        const auto kernel = engine.compile(t % 2 == 0 ? kLongnet : kCausal, f32(32));
        if (!kernel || !kernel->run(mine.args())) return;
        if (t % 2 == 0 && mine.out != expected.out) return;
      }
      good[t] = 1;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(6, 1));
}

TEST_F(EngineTest, BranchLse) {
  const Engine engine(options());
  for (const auto* combine : {"joint", "sum"}) {
    const auto text = std::string("pattern p { branch window(3, 0); branch sink(2); combine ") + combine + "; }";
    auto with = f32(32);
    with.branch_lse = true;
    std::vector<float> fast(2 * 2 * 40), slow(fast.size());
    for (auto [values, target] : {std::pair{&fast, "cpu"}, std::pair{&slow, "interpreter"}}) {
      Problem problem(1, 40, 2, 32);
      with.target = target;
      auto args = problem.args();
      args.lse = {};
      args.branch_lse = dense_output(values->data(), DType::f32, {2, 1, 2, 40});
      const auto status = compile(engine, text, with).run(args);
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
    EXPECT_LT(largest_difference(fast, slow), 2e-5) << combine;
  }
}

TEST_F(EngineTest, OtherTypes) {
  const Engine engine(options());
  for (auto dtype : {DType::f16, DType::bf16}) {
    std::vector<std::uint16_t> x(2 * 50 * 32), fast(x.size(), 0xffff), slow(x.size(), 0xffff);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint16_t>(0x3800 + (i * 37) % 0x200);
    for (auto [out, target] : {std::pair{&fast, "cpu"}, std::pair{&slow, "interpreter"}}) {
      const auto view = dense_view(x.data(), dtype, {1, 50, 2, 32});
      const RunArgs args{.q = view, .k = view, .v = view, .out = dense_output(out->data(), dtype, {1, 50, 2, 32})};
      const auto kernel = engine.compile(kCausal, {.dim = 32, .dtype = dtype, .target = target});
      ASSERT_TRUE(kernel.ok()) << kernel.error().message;
      ASSERT_TRUE(kernel->run(args).ok());
    }
    for (std::size_t i = 0; i < fast.size(); ++i) ASSERT_NEAR(fast[i], slow[i], 4) << i;  // neighbours in the last bits
  }
}

TEST_F(EngineTest, EmulatedCudaAgreesWithTheInterpreter) {
  const Engine engine(options());
  Problem a(2, 77, 3, 32), b = a;
  const auto kernel = compile(engine, kLongnet, f32(32, "emulate:sm_61"));
  EXPECT_EQ(kernel.target(), "emulate:sm_61");
  EXPECT_NE(kernel.source_text().find("__global__"), std::string::npos);
  EXPECT_FALSE(kernel.registers());
  EXPECT_GT(kernel.shared_bytes(3).value_or(0), 1024);
  const auto status = kernel.run(a.args());
  ASSERT_TRUE(status.ok()) << status.error().message;
  ASSERT_TRUE(compile(engine, kLongnet, f32(32, "interpreter")).run(b.args()).ok());
  EXPECT_LT(largest_difference(a.out, b.out), 2e-5);
  EXPECT_LT(largest_difference(a.lse, b.lse), 2e-5);

  const auto reports = count_emulated(kernel, a.args());
  ASSERT_TRUE(reports.ok()) << reports.error().message;
  ASSERT_EQ(reports->size(), 1u);
  EXPECT_GT(reports->front().flops, 2 * 2 * 3 * 77 * 32);
  EXPECT_GT(reports->front().global().bytes, 4 * 4 * 2 * 77 * 3 * 32);
  EXPECT_FALSE(count_emulated(compile(engine, kLongnet, f32(32)), a.args()).ok());
}

TEST_F(EngineTest, GpuKernelsRefusePositionsBeyond32Bits) {
  const Engine engine(options());
  Problem p(1, 20, 1, 16);
  const auto kernel = compile(engine, kCausal, f32(16, "emulate:sm_61"));
  auto args = p.args();
  const std::int64_t last = std::numeric_limits<std::int32_t>::max() - 20;
  for (const std::int64_t offset : {std::int64_t{0}, last, last + 1}) {
    args.offset = {&offset, 1};
    const auto status = kernel.run(args);
    EXPECT_EQ(status.ok(), offset <= last) << offset;
    if (status.ok()) continue;
    EXPECT_NE(status.error().message.find("positions"), std::string::npos) << status.error().message;
  }
}

TEST_F(EngineTest, TargetsThatMakeNoSense) {
  const Engine engine(options());
  for (const auto* target : {"emulate:cpu", "emulate:sm_1", "cuda:", "cuda:-1", "cuda:1x", "sm_61a"}) {
    const auto refused = engine.compile(kCausal, f32(32, target));
    ASSERT_FALSE(refused.ok()) << target;
    EXPECT_EQ(refused.error().kind, ErrorKind::user) << target;
  }
}

TEST_F(EngineTest, TextErrorsCarryPlaces) {
  const Engine engine(options());
  const auto kernel = engine.compile("pattern p { keep causl; }", f32(32));
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().kind, ErrorKind::user);
  ASSERT_EQ(kernel.error().diagnostics.size(), 1u);
  EXPECT_EQ(kernel.error().diagnostics[0].range.begin, 17u);
}

TEST_F(EngineTest, OpenDimsMustBeSaid) {
  const Engine engine(options());
  const auto kernel = engine.compile(kCausal, {.dtype = DType::f32});
  ASSERT_FALSE(kernel.ok());
  EXPECT_NE(kernel.error().message.find("dim"), std::string::npos);
  EXPECT_EQ(engine.compile(kCausal, {.dim = 32, .dtype = DType::f32, .target = "cpu:vax"}).error().kind,
            ErrorKind::user);
}

TEST_F(EngineTest, ForbiddenToCompile) {
  auto forbidding = options();
  forbidding.no_compile = true;
  const auto refused = Engine(forbidding).compile(kCausal, f32(32));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::environment);
  EXPECT_TRUE(Engine(options()).compile(kCausal, f32(32)).ok());
  EXPECT_TRUE(Engine(forbidding).compile(kCausal, f32(32)).ok());
}

}  // namespace
}  // namespace weft::test
