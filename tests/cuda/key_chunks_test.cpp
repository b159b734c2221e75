/// Few rows with many keys: the keys are cut, and what chunks of them give is merged.

#include "compiler/ir/key_chunks.h"
#include "compiler/planner/planner.h"
#include "engine_fixture.h"
#include "tests/codegen/random_check.h"
#include "tests/device/engine_runner.h"
#include "tests/support/effort.h"

namespace weft::test {
namespace {

constexpr const char* kChunks = "pattern p { keep causal; schedule { chunk: 64; } }\n";

/// A plan that may cut keys does not where that gives too few for a chunk, or where there are rows enough.
TEST_F(CudaEngine, KeysOfManyRowsAreNotCut) {
  const Engine engine(options());
  const auto kernel = compile(engine, kChunks, f32());
  emulate(kernel);
  const auto launches = [&](std::int64_t tokens) {
    driver().launches.clear();
    Problem problem(2, tokens, 3, 32);
    const OnDevice memory(device_of(kernel), problem);
    const auto status = kernel.run(memory.args(problem));
    EXPECT_TRUE(status.ok()) << status.error().message;
    memory.fetch(problem);
    expect_meaning(kChunks, problem);
    std::vector<std::string> symbols;
    for (const auto& launch : driver().launches) symbols.push_back(driver().functions.at(launch.function));
    return symbols;
  };
  EXPECT_EQ(launches(120), (std::vector<std::string>{"weft_kernel"})) << "one chunk";
  EXPECT_EQ(launches(250), (std::vector<std::string>{"weft_kernel"})) << "chunks of more keys for more rows";
  EXPECT_EQ(launches(600), (std::vector<std::string>{"weft_kernel"})) << "several tiles of rows";
}

/// The text that cuts keys, like the merge in it, is for who needs it.
TEST_F(CudaEngine, FewQueriesAreCompiledWhenTheyCome) {
  const Engine engine(options());
  const auto kernel = compile(engine, kChunks, f32());
  Problem problem(1, 700, 2, 32);
  const OnDevice memory(device_of(kernel), problem);
  auto few = memory.args(problem);
  few.q.extent[1] = few.out.extent[1] = 1;
  few.lse = {};
  few.stream = reinterpret_cast<void*>(0x77);
  const RunShape one{.batch = 1, .n_q = 1, .n_k = 700, .heads = 2, .kv_heads = 2};
  ASSERT_TRUE(kernel.run(memory.args(problem)).ok());
  EXPECT_EQ(engine.cache_stats().compiled, 1U);
  // A capture does not wait for a compiler.
  driver().captured = 0x77;
  const auto early = kernel.run(few);
  driver().captured = 0;
  ASSERT_FALSE(early.ok());
  EXPECT_NE(early.error().message.find("call prepare()"), std::string::npos) << early.error().message;
  EXPECT_EQ(engine.cache_stats().compiled, 1U);
  EXPECT_GT(kernel.prepare(one)->compile_ms, 0);
  EXPECT_EQ(engine.cache_stats().compiled, 2U);
  EXPECT_EQ(kernel.prepare(one)->compile_ms, 0);
  EXPECT_EQ(driver().symbols, (std::vector<std::string>{"weft_kernel", "weft_kernel", "weft_merge", "weft_sizes"}));
  ASSERT_TRUE(kernel.run(few).ok());
  EXPECT_EQ(engine.cache_stats().compiled, 2U);
  // Heads that share keys stand in one tile, whether or not there are keys enough to cut.
  const Engine another({.cache_dir = options().cache_dir});
  const auto stored = compile(another, kChunks, f32());
  auto shared = few;
  shared.k.extent[2] = shared.v.extent[2] = 1;
  shared.k.extent[1] = shared.v.extent[1] = 40;
  ASSERT_TRUE(stored.run(shared).ok());
  EXPECT_EQ(another.cache_stats().store_hits, 2U);
  // Where nothing may be compiled, the launch says what is missing.
  const std::string other = folder_ + "/other";
  static_cast<void>(compile(Engine({.cache_dir = other}), kChunks, f32()));
  const auto refused = compile(Engine({.cache_dir = other, .no_compile = true}), kChunks, f32()).run(few);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("few queries"), std::string::npos) << refused.error().message;
}

/// One row for each batch entry, at positions of its own, as in decoding: as if each entry were alone, to the bit.
TEST_F(CudaEngine, ChunksOfAnEntryAreItsOwn) {
  const Engine engine(options());
  const auto kernel = compile(engine, kChunks, f32());
  emulate(kernel);
  constexpr std::int64_t kKeys = 700;
  Problem problem(3, kKeys, 2, 32);
  const auto run = [&](std::int64_t first, std::int64_t entries, std::vector<std::int64_t> offset) {
    const OnDevice memory(device_of(kernel), problem);
    auto args = memory.args(problem);
    const auto only = [&](auto& view, std::int64_t tokens) {
      view.data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(view.data))) +
                  first * view.stride[0] * static_cast<std::int64_t>(sizeof(float));
      view.extent[0] = entries;
      view.extent[1] = tokens;
    };
    only(args.q, 1), only(args.k, kKeys), only(args.v, kKeys), only(args.out, 1);
    args.lse = {};
    args.offset = offset;
    driver().launches.clear();
    const auto status = kernel.run(args);
    EXPECT_TRUE(status.ok()) << status.error().message;
    memory.fetch(problem);
    std::vector<float> rows;
    for (auto b = first; b < first + entries; ++b)
      rows.insert(rows.end(), problem.out.begin() + b * kKeys * 64, problem.out.begin() + b * kKeys * 64 + 64);
    return rows;
  };
  const std::vector<std::int64_t> offset = {699, 3, 400};
  const auto together = run(0, 3, offset);
  ASSERT_EQ(driver().launches.size(), 2u) << "nothing was merged";
  EXPECT_EQ(driver().launches[0].args.chunks, 6) << "of the entry with most keys";
  std::vector<float> alone;
  for (std::int64_t b = 0; b < 3; ++b) {
    const auto rows = run(b, 1, {offset[static_cast<std::size_t>(b)]});
    alone.insert(alone.end(), rows.begin(), rows.end());
  }
  EXPECT_EQ(together, alone);
}

/// Heads take turns where chunks of all of them are more than the room that a launch takes.
TEST_F(CudaEngine, HeadsTakeTurnsWithChunks) {
  const Engine engine(options());
  auto how = f32();
  how.dim = 8;
  how.dim_v = 256;
  const auto kernel =
      compile(engine, "pattern p { branch window(4, 0) | global(4); keep causal; schedule { chunk: 64; } }", how);
  emulate(kernel);
  constexpr std::int64_t kBatch = 8, kHeads = 8, kRows = 16, kKeys = 2048;  // 528 KB of state a head
  const std::vector<float> same(256, 0.5F);
  std::vector<float> out(static_cast<std::size_t>(kBatch * kRows * kHeads * 256));
  const auto device = device_of(kernel);
  const auto data = cuda::Buffer::upload(device, same.data(), same.size() * sizeof(float)).value();
  const auto result = cuda::Buffer::upload(device, out.data(), out.size() * sizeof(float)).value();
  auto operand = [&](std::int64_t tokens, std::int64_t columns) {
    auto view = dense_view(same.data(), DType::f32, {kBatch, tokens, kHeads, columns});
    view.data = data.data();
    view.stride = {0, 0, 0, 1};
    return view;
  };
  auto o = dense_output(out.data(), DType::f32, {kBatch, kRows, kHeads, 256});
  o.data = result.data();
  const auto status = kernel.run({.q = operand(kRows, 8), .k = operand(kKeys, 8), .v = operand(kKeys, 256), .out = o});
  ASSERT_TRUE(status.ok()) << status.error().message;
  std::int64_t rows = 0;
  for (const auto& launch : driver().launches) {
    if (driver().functions.at(launch.function) == "weft_merge") rows += launch.args.tile_end - launch.args.tile_begin;
  }
  EXPECT_EQ(rows, kBatch * kHeads * kRows);
  EXPECT_GT(driver().launches.size(), 2u) << "all at once";
  ASSERT_TRUE(result.copy_out(out.data(), out.size() * sizeof(float)).ok());
  for (float x : out) ASSERT_NEAR(x, 0.5F, 1e-6F);
}

TEST_F(CudaEngine, RandomPatternsInChunks) {
  const auto target = find_target("sm_61").value();
  const auto as_they_are = [](const testing::RunOptions& options, std::uint64_t) { return options; };
  const int wanted = effort(2, 4);
  int merged = 0;
  for (std::uint64_t seed = 9100; merged < wanted && seed < 9400; ++seed) {
    auto random = random_problem(seed, {.most_tokens = 400});
    random.shape.n_q = std::min<std::int64_t>(random.shape.n_q, 16);
    random.pattern.schedule.push_back({.key = "chunk", .value = 64, .range = {}});
    const auto problem = testing::with_dims(random, seed);
    const ir::Bind bind{.d = problem.shape.d, .d_v = problem.shape.d_v};
    const auto plan = planner::plan(problem.pattern, bind, target);
    if (!plan.ok() || ir::key_chunks(*plan, problem.shape, 0).count < 2) continue;
    const auto kernel = testing::EngineKernel::make(problem.pattern, bind, target, problem.shape);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    emulate(kernel->kernel());
    driver().launches.clear();
    EXPECT_EQ(testing::check_random<testing::EngineKernel>(problem, target, ir::DType::f32, seed, false, as_they_are),
              "")
        << describe(problem);
    const bool merges = driver().functions.at(driver().launches.back().function) == "weft_merge";
    EXPECT_TRUE(merges) << describe(problem);
    merged += merges;
    driver().on_launch = nullptr;
  }
  EXPECT_EQ(merged, wanted) << "few can be cut";
}

}  // namespace
}  // namespace weft::test
