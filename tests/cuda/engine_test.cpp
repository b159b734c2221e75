/// Kernels for GPUs through the engine. The stand-in's launches run the emitted text on the emulator, so that results
/// come out of "device" memory as they would of a GPU's.

#include "codegen/cuda/emit.h"
#include "codegen/divisor.h"
#include "compiler/planner/planner.h"
#include "engine_fixture.h"
#include "kernels_cache/store.h"
#include "runtime/engine/compilation.h"
#include "tests/codegen/random_check.h"
#include "tests/device/device_runner.h"
#include "tests/device/engine_runner.h"
#include "tests/support/program.h"

#include <fmt/format.h>

#include <cmath>

namespace weft::test {
namespace {

constexpr const char* kTwoPhases =
    "pattern p { branches dilated(segments: [512, 4096], rates: [8, 7]); keep causal; }\n";

TEST_F(CudaEngine, ComputesWhatTheInterpreterSays) {
  for (const auto* text : {kLongnet, kTwoPhases}) {
    const Engine engine(options());
    expect_meaning(compile(engine, text, f32()), text, Problem(2, 77, 3, 32));
  }
}

TEST_F(CudaEngine, OriginsInOrder) {
  {
    const Engine engine(options());
    const auto first = compile(engine, kLongnet, f32());
    EXPECT_EQ(first.origin(), CacheOrigin::miss);
    EXPECT_GT(first.compile_ms(), 0);
    EXPECT_EQ(compile(engine, kLongnet, f32()).origin(), CacheOrigin::memory);
    EXPECT_GT(first.registers().value_or(0), 16);
    EXPECT_TRUE(first.spill_bytes().has_value());
    EXPECT_GT(first.shared_bytes(8).value_or(0), 1024);
  }
  const Engine later(options());
  const auto stored = compile(later, kLongnet, f32());
  EXPECT_EQ(stored.origin(), CacheOrigin::disk);
  EXPECT_GT(stored.registers().value_or(0), 16);
  ASSERT_EQ(driver().images.size(), 2u);
  EXPECT_EQ(driver().images[0], driver().images[1]);
  EXPECT_EQ(driver().symbols, (std::vector<std::string>{"weft_kernel", "weft_kernel"}));
}

/// A whole entry that is no cubin, or one without the kernel's name, is replaced.
TEST_F(CudaEngine, AStoredCubinThatMakesNoSenseIsReplaced) {
  EXPECT_EQ(compile(Engine(options()), kCausal, f32()).origin(), CacheOrigin::miss);
  const auto store = cache::Store::open({.directory = options().cache_dir});
  for (const bool no_cubin : {true, false}) {
    auto decoded = store->read(store->list().front().digest);
    ASSERT_TRUE(decoded.ok());
    auto& binary = decoded->entry.binary;
    if (no_cubin) binary = "no cubin";
    for (auto at = binary.find("weft_kernel"); at != std::string::npos; at = binary.find("weft_kernel"))
      binary[at] = 'l';
    ASSERT_TRUE(store->put(*cache::Key::parse(decoded->key_text), decoded->entry).published);
    const Engine engine(options());
    EXPECT_EQ(compile(engine, kCausal, f32()).origin(), CacheOrigin::miss);
    EXPECT_EQ(engine.take_warnings().size(), 1U);
    EXPECT_EQ(compile(Engine(options()), kCausal, f32()).origin(), CacheOrigin::disk);
  }
}

constexpr const char* kAdaptive =
    "pattern p { keep blocks(16, top(2, by: pooled) | random(1, seed: 5)); keep causal; }\n";

/// The prepass is part of the kernel's text, entry and cubin: a program that may not compile has it, too.
TEST_F(CudaEngine, ThePrepassComesWithItsKernel) {
  {
    const Engine engine(options());
    const auto kernel = compile(engine, kAdaptive, f32());
    EXPECT_EQ(kernel.origin(), CacheOrigin::miss);
    EXPECT_NE(kernel.source_text().find(" weft_prepass("), std::string::npos);
  }
  auto stored_only = options();
  stored_only.no_compile = true;
  const Engine later(stored_only);
  const auto kernel = compile(later, kAdaptive, f32());
  EXPECT_EQ(kernel.origin(), CacheOrigin::disk);
  ASSERT_EQ(driver().images.size(), 2u) << "one a kernel";
  EXPECT_EQ(driver().symbols, (std::vector<std::string>{"weft_kernel", "weft_prepass", "weft_kernel", "weft_prepass"}));
  Problem problem(2, 77, 2, 32);
  const OnDevice memory(device_of(kernel), problem);
  emulate(kernel);
  const auto status = kernel.run(memory.args(problem));
  ASSERT_TRUE(status.ok()) << status.error().message;
  memory.fetch(problem);
  expect_meaning(kAdaptive, problem);
  EXPECT_EQ(driver().functions.at(driver().launches.front().function), "weft_prepass");
  EXPECT_EQ(driver().functions.at(driver().launches.back().function), "weft_kernel");
}

/// Lists that the caller asks for are made in the caller's memory, which must be the device's.
TEST_F(CudaEngine, ListsGoToDeviceMemory) {
  const Engine engine(options());
  const auto kernel = compile(engine, kAdaptive, f32());
  Problem problem(2, 77, 2, 32);
  const OnDevice memory(device_of(kernel), problem);
  const auto infos = kernel.lists({.batch = 2, .n_q = 77, .n_k = 77, .heads = 2, .kv_heads = 2});
  ASSERT_TRUE(infos.ok());
  ASSERT_EQ(infos->size(), 2u);
  std::vector<std::vector<std::int32_t>> host;
  std::vector<cuda::Buffer> there;
  std::vector<OutputView> views;
  for (const auto& info : *infos) {
    const auto& [entries, heads, rows, places] = info.extent;
    auto& list = host.emplace_back(static_cast<std::size_t>(entries * heads * rows * places), -1);
    there.push_back(cuda::Buffer::upload(device_of(kernel), list.data(), 4 * list.size()).value());
    views.push_back(dense_output(there.back().data(), DType::i32, {entries, heads, rows, places}));
  }
  auto args = memory.args(problem);
  args.lists = views;
  emulate(kernel);
  const auto status = kernel.run(args);
  ASSERT_TRUE(status.ok()) << status.error().message;
  memory.fetch(problem);
  expect_meaning(kAdaptive, problem);
  for (std::size_t i = 0; i < host.size(); ++i) {
    ASSERT_TRUE(there[i].copy_out(host[i].data(), 4 * host[i].size()).ok());
    EXPECT_EQ(std::count(host[i].begin(), host[i].end(), -1), 0) << "places that nothing wrote";
  }
  const auto first = host[0];
  EXPECT_EQ((std::vector<std::int32_t>{first[0], first[1], first[2], first[3]}),
            (std::vector<std::int32_t>{0, kUnusedPlace, 0, 1}));

  views[1].data = host[1].data();
  driver().forget();
  const auto refused = kernel.run(args);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "list 1 is host memory that the GPU cannot read; copy it to the device first");
  EXPECT_EQ(driver().launches.size(), 0u);
}

/// Another seed is other code of the prepass alone, and another entry; how many are drawn is an argument.
TEST_F(CudaEngine, TheKeyIsOfThePrepassToo) {
  const auto target = find_target("sm_61").value();
  const auto key = [&](const std::string& text) {
    const auto options = f32("sm_61");
    auto planned = plan_pattern(read_pattern({"input.weft", text}, options).value(), options, target);
    return binary_of(Compilation(std::move(planned).value())).request.digest();
  };
  const auto random = [&](int seed, int count) {
    return key(fmt::format("pattern p {{ keep blocks(16, random({}, seed: {})); }}", count, seed));
  };
  EXPECT_EQ(random(5, 2), random(5, 3));
  EXPECT_NE(random(5, 2), random(6, 2));
}

/// Every byte of the one parameter, and how it is launched.
TEST_F(CudaEngine, ArgumentBlockByteForByte) {
  const Engine engine(options());
  const auto kernel = compile(engine, kLongnet, f32());
  Problem problem(2, 90, 3, 32);
  const OnDevice memory(device_of(kernel), problem);
  auto args = memory.args(problem);
  args.dropout_seed = 99;
  args.stream = reinterpret_cast<void*>(0x55);
  ASSERT_TRUE(kernel.run(args).ok());
  ASSERT_EQ(driver().launches.size(), 1u);
  const auto& launched = driver().launches[0];

  const auto plan = ir::parse_plan(kernel.plan_text());
  ASSERT_TRUE(plan.ok());
  const auto tables = make_head_tables(*plan, 3);
  ASSERT_TRUE(tables.ok());
  weft_args expected = {};
  expected.abi = kWeftArgsAbi;
  expected.heads_per_tile = 1;
  expected.batch = 2;
  expected.n_q = expected.n_k = 90;
  expected.queries_up_to = std::numeric_limits<std::int32_t>::max();
  expected.heads = expected.kv_heads = 3;
  expected.of_group = expected.of_shares = codegen::divisor_of(1);
  const std::int64_t row = 3 * 32;
  expected.q = {.data = memory.q.data(), .stride_b = 90 * row, .stride_n = row, .stride_h = 32};
  expected.k = {.data = memory.k.data(), .stride_b = 90 * row, .stride_n = row, .stride_h = 32};
  expected.v = {.data = memory.v.data(), .stride_b = 90 * row, .stride_n = row, .stride_h = 32};
  expected.o = {.data = memory.out.data(), .stride_b = 90 * row, .stride_n = row, .stride_h = 32};
  expected.lse = static_cast<float*>(memory.lse.data());
  expected.lse_stride_b = 3 * 90;
  expected.lse_stride_h = 90;
  expected.scale = 1 / std::sqrt(32.0);
  expected.seed = 99;
  expected.tables = launched.args.tables;  // checked below
  expected.most_terms = tables->tables.most_terms;
  expected.row_end = expected.carried_rows = 90;
  number_tiles(*plan, *tables, 0, {.batch = 2, .n_q = 90, .n_k = 90, .heads = 3, .kv_heads = 3}, expected);
  expected.tile_end = 2 * 3 * expected.tiles_per_head;
  EXPECT_EQ(std::memcmp(&launched.args, &expected, sizeof expected), 0);

  const auto& words = tables->tables.words;
  const auto at = driver().memory.find(reinterpret_cast<std::uint64_t>(launched.args.tables));
  ASSERT_NE(at, driver().memory.end());
  ASSERT_EQ(at->second, words.size() * sizeof words[0]);
  EXPECT_EQ(std::memcmp(launched.args.tables, words.data(), at->second), 0);

  const auto shared = codegen::cuda::shared_memory(*plan).with_terms(tables->tables.most_terms);
  EXPECT_EQ(launched.grid[0], static_cast<unsigned>(expected.tile_end));
  EXPECT_EQ(launched.block[0], static_cast<unsigned>(plan->choices.threads));
  EXPECT_EQ(launched.shared_bytes, static_cast<unsigned>(shared));
  EXPECT_EQ(launched.stream, 0x55u);
  EXPECT_EQ(launched.context, primary(0));
}

TEST_F(CudaEngine, FewRowsOfHeadsThatShareKeysStandInOneTile) {
  const Engine engine(options());
  const auto blocks = [&](const std::string& text, std::int64_t n_q) {
    const auto kernel = compile(engine, text, f32());
    Problem problem(2, 90, 6, 32);
    const OnDevice memory(device_of(kernel), problem);
    auto args = memory.args(problem);
    args.q = dense_view(memory.q.data(), DType::f32, {2, n_q, 6, 32});
    args.out = dense_output(memory.out.data(), DType::f32, {2, n_q, 6, 32});
    args.lse = dense_output(memory.lse.data(), DType::f32, {2, 6, n_q});
    for (auto* keys : {&args.k, &args.v}) *keys = dense_view(keys->data, DType::f32, {2, 90, 2, 32});
    driver().forget();
    EXPECT_TRUE(kernel.run(args).ok());
    const auto& launched = driver().launches.at(0);
    EXPECT_EQ(launched.args.tile_end, 12 / launched.args.heads_per_tile * launched.args.tiles_per_head);
    return launched.grid[0];
  };
  EXPECT_EQ(blocks("pattern p { keep causal; }", 1), 4u);
  EXPECT_EQ(blocks("pattern p { keep causal; }", 42), 4u);
  EXPECT_EQ(blocks("pattern p { keep causal; }", 43), 12u) << "129 rows are more than a tile";
  EXPECT_EQ(blocks("pattern p { score s - 0.1 * (h + 1) * (q - k); }", 1), 12u) << "heads differ";
}

/// A warm launch is a look at the pointers and one call a phase: no memory, no waiting.
TEST_F(CudaEngine, WarmLaunchesOnlyLaunch) {
  const Engine engine(options());
  const auto kernel = compile(engine, kTwoPhases, f32());
  Problem problem(1, 100, 2, 32);
  const OnDevice memory(device_of(kernel), problem);
  const auto args = memory.args(problem);
  ASSERT_TRUE(kernel.run(args).ok());
  ASSERT_EQ(driver().launches.size(), 2u);
  EXPECT_EQ(driver().launches[0].args.phase, 0);
  EXPECT_EQ(driver().launches[1].args.phase, 1);
  EXPECT_EQ(driver().launches[0].args.carry, driver().launches[1].args.carry);

  driver().forget();
  ASSERT_TRUE(kernel.run(args).ok());
  const std::vector<std::string> pointers(5, "cuPointerGetAttributes");
  std::vector<std::string> expected = {"cuCtxGetCurrent", "cuCtxPushCurrent_v2"};
  expected.insert(expected.end(), pointers.begin(), pointers.end());
  expected.insert(expected.end(), {"cuLaunchKernel", "cuLaunchKernel", "cuCtxPopCurrent_v2"});
  EXPECT_EQ(names_of_calls(), expected);

  set_current(primary(0));
  driver().forget();
  ASSERT_TRUE(kernel.run(args).ok());
  EXPECT_EQ(driver().count("cuCtxPushCurrent_v2"), 0u);
  EXPECT_EQ(current(), primary(0));
}

TEST_F(CudaEngine, CarriedStateLiesInTheWorkspace) {
  const Engine engine(options());
  const auto kernel = compile(engine, kTwoPhases, f32());
  const auto bytes = kernel.workspace({.batch = 1, .n_q = 100, .n_k = 100, .heads = 2, .kv_heads = 2});
  ASSERT_TRUE(bytes.ok());
  EXPECT_GE(*bytes, 100u * 2 * (32 + 2) * 4);
  Problem problem(1, 100, 2, 32);
  const OnDevice memory(device_of(kernel), problem);
  const auto workspace = cuda::Buffer::allocate(device_of(kernel), *bytes + 3);
  ASSERT_TRUE(workspace.ok());
  auto args = memory.args(problem);
  // The caller's buffer may start anywhere.
  args.workspace = {static_cast<std::byte*>(workspace->data()) + 3, *bytes};
  const auto allocations = driver().count("cuMemAlloc_v2");
  emulate(kernel);
  const auto status = kernel.run(args);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(driver().count("cuMemAlloc_v2"), allocations + 1) << "more than the tables";
  const auto* const begin = args.workspace.data();
  const auto* const carry = reinterpret_cast<const std::byte*>(driver().launches.at(0).args.carry);
  EXPECT_GE(carry, begin);
  EXPECT_LE(carry + 100 * 2 * (32 + 2) * 4, begin + *bytes);
  memory.fetch(problem);
  expect_meaning(kTwoPhases, problem);

  args.workspace = args.workspace.first(*bytes / 2);
  const auto refused = kernel.run(args);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("workspace"), std::string::npos);
}

TEST_F(CudaEngine, OffsetsPerBatchEntryGoToTheDevice) {
  const Engine engine(options());
  const auto kernel = compile(engine, kLongnet, f32());
  Problem problem(2, 60, 2, 32);
  const OnDevice memory(device_of(kernel), problem);
  const std::vector<std::int64_t> offsets = {3, 40};
  auto args = memory.args(problem);
  args.offset = offsets;
  emulate(kernel);
  const auto status = kernel.run(args);
  ASSERT_TRUE(status.ok()) << status.error().message;
  const auto* const there = driver().launches.at(0).args.offsets;
  ASSERT_NE(there, nullptr);
  EXPECT_NE(there, offsets.data());
  EXPECT_EQ(driver().count("cuMemcpyHtoDAsync_v2"), 1u);
  memory.fetch(problem);
  expect_meaning(kLongnet, problem, offsets);

  args.offset = std::span(offsets).first(1);
  driver().forget();
  ASSERT_TRUE(kernel.run(args).ok());
  EXPECT_EQ(driver().launches.at(0).args.offsets, nullptr);
  EXPECT_EQ(driver().launches.at(0).args.offset, 3);
  EXPECT_EQ(driver().count("cuMemcpyHtoDAsync_v2"), 0u);
}

TEST_F(CudaEngine, AHostPointerIsNamedBeforeAnythingIsLaunched) {
  const Engine engine(options());
  const auto kernel = compile(engine, kLongnet, f32());
  Problem problem(1, 40, 2, 32);
  const OnDevice memory(device_of(kernel), problem);
  const auto good = memory.args(problem);
  const auto expect_refused = [&](const RunArgs& args, const std::string& name) {
    const auto status = kernel.run(args);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_EQ(status.error().kind, ErrorKind::user);
    EXPECT_EQ(status.error().message, name + " is host memory that the GPU cannot read; copy it to the device first");
  };
  auto bad = good;
  bad.q.data = problem.q.data();
  expect_refused(bad, "q");
  bad = good;
  bad.out.data = problem.out.data();
  expect_refused(bad, "out");
  bad = good;
  bad.lse.data = problem.lse.data();
  expect_refused(bad, "lse");
  EXPECT_EQ(driver().launches.size(), 0u);
  ASSERT_TRUE(kernel.run(good).ok());
  EXPECT_EQ(driver().launches.size(), 1u);
}

/// Expressions compute with sums of positions in 32 bits; other kernels have all of those for a position.
TEST_F(CudaEngine, PositionsThatKernelsCannotCountAreRefusedBeforeTheLaunch) {
  const Engine engine(options());
  Problem problem(1, 40, 2, 32);
  const auto status_at = [&](const Kernel& kernel, std::int64_t first) {
    const OnDevice memory(device_of(kernel), problem);
    auto args = memory.args(problem);
    args.offset = std::span(&first, 1);
    driver().forget();
    return kernel.run(args);
  };
  const std::int64_t half = std::int64_t{1} << 29, all = std::int64_t{1} << 31;
  const auto scored = compile(engine, "pattern p { keep causal; score s + 0.01 * (k - q); }", f32());
  const auto plain = compile(engine, kCausal, f32());
  for (const auto& [kernel, most] : {std::pair(&scored, half), std::pair(&plain, all - 1)}) {
    EXPECT_TRUE(status_at(*kernel, most - 40).ok());
    EXPECT_EQ(driver().launches.size(), 1u);
    const auto beyond = status_at(*kernel, most - 39);
    ASSERT_FALSE(beyond.ok());
    EXPECT_EQ(beyond.error().kind, ErrorKind::user);
    EXPECT_NE(beyond.error().message.find("count positions up to " + std::to_string(most)), std::string::npos)
        << beyond.error().message;
    EXPECT_EQ(driver().launches.size(), 0u);
  }
}

/// What the tests that need a GPU launch kernels with, on the stand-in: every pointer must lead to device memory.
TEST_F(CudaEngine, TheRunnerOfDeviceTests) {
  const auto problem = testing::with_dims(random_problem(9003, {.most_tokens = 100}), 9003);
  const auto target = find_target("sm_61").value();
  const ir::Bind bind{.d = problem.shape.d, .d_v = problem.shape.d_v};
  const auto plan = planner::plan(problem.pattern, bind, target);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  emulate(codegen::cuda::emit(*plan, target).text, codegen::cuda::emit(*plan, target, ir::Regime::few_queries).text);
  const auto as_they_are = [](const testing::RunOptions& options, std::uint64_t) { return options; };
  EXPECT_EQ(testing::check_random<testing::DeviceKernel>(problem, target, ir::DType::f32, 9003, false, as_they_are),
            "");
  EXPECT_GT(driver().launches.size(), 0u);
  driver().on_launch = nullptr;
  EXPECT_NE(testing::check_random<testing::DeviceKernel>(problem, target, ir::DType::f32, 9003, false, as_they_are), "")
      << "a GPU that computes nothing";
}

/// The other one, which leaves the prepass to the GPU.
TEST_F(CudaEngine, TheRunnerOfDeviceTestsByTheEngine) {
  const auto target = find_target("sm_61").value();
  const auto as_they_are = [](const testing::RunOptions& options, std::uint64_t) { return options; };
  auto chosen = random_problem(9003, {.most_tokens = 100});
  chosen.pattern = lowered({.text = "pattern p { keep blocks(16, top(2, by: pooled)); }", .pattern = "p"}).value();
  chosen.inputs.clear();
  for (const auto& random : {random_problem(9003, {.most_tokens = 100}), chosen}) {
    const auto problem = testing::with_dims(random, 9003);
    const ir::Bind bind{.d = problem.shape.d, .d_v = problem.shape.d_v};
    const auto kernel = testing::EngineKernel::make(problem.pattern, bind, target, problem.shape);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    emulate(kernel->kernel());
    EXPECT_EQ(testing::check_random<testing::EngineKernel>(problem, target, ir::DType::f32, 9003, false, as_they_are),
              "");
    driver().on_launch = nullptr;
    EXPECT_NE(testing::check_random<testing::EngineKernel>(problem, target, ir::DType::f32, 9003, false, as_they_are),
              "")
        << "a GPU that computes nothing";
  }
}

/// Compile, load, run: each call of the driver that can fail does once.
TEST_F(CudaEngine, EveryFailureIsTypedAndLeaksNothing) {
  const auto live = [&](const std::function<void()>& before_the_end) -> Status {
    const Engine engine(options());
    WEFT_TRY(const auto kernel, engine.compile(kTwoPhases, f32()));
    Problem problem(2, 40, 1, 32);
    const std::vector<std::int64_t> offsets = {0, 5};
    const auto device = device_of(kernel);
    WEFT_TRY(const auto buffer, cuda::Buffer::allocate(device, 4 * problem.q.size()));
    WEFT_TRY(const auto out, cuda::Buffer::allocate(device, 4 * problem.q.size()));
    WEFT_TRY(const auto lse, cuda::Buffer::allocate(device, 4 * problem.lse.size()));
    auto args = problem.args();
    args.q.data = args.k.data = args.v.data = buffer.data();
    args.out.data = out.data();
    args.lse.data = lse.data();
    args.offset = offsets;
    WEFT_CHECK(kernel.run(args));
    before_the_end();
    return done;
  };
  ASSERT_TRUE(live([] {}).ok()) << "the control";
  expect_nothing_alive();
  std::map<std::string, int> failed;
  for (int at = 0;; ++at) {
    ASSERT_LT(at, 500);
    new_name();
    driver().forget();
    driver().fail_at = at;
    const auto status = live([&] { driver().fail_at = -1; });
    if (driver().failed.empty()) break;
    ++failed[driver().failed];
    ASSERT_FALSE(status.ok()) << driver().failed;
    EXPECT_EQ(status.error().kind, ErrorKind::environment);
    std::string said = status.error().message;
    for (const auto& note : status.error().notes) said += "\n" + note;
    EXPECT_NE(said.find(driver().failed.substr(0, driver().failed.find("_v2"))), std::string::npos)
        << said << " after " << driver().failed;
    EXPECT_EQ(current(), 0u) << driver().failed;
    expect_nothing_alive();
  }
  EXPECT_GE(failed["cuLaunchKernel"], 2);
  EXPECT_GE(failed["cuMemcpyHtoDAsync_v2"], 1);
  EXPECT_GE(failed["cuModuleLoadData"], 1);
}

/// Kernels of inputs' gradients are compiled when a launch first wants one, or ahead by prepare().
TEST_F(CudaEngine, CompilesGradientsOfInputsWhenTheyAreWanted) {
  const Engine engine(options());
  auto of_backward = f32();
  of_backward.gradient = true;
  const auto kernel =
      compile(engine, "pattern p { input bias: f32[heads]; keep causal; score s + bias[h]; }", of_backward);
  EXPECT_EQ(engine.cache_stats().compiled, 2U) << "dQ, and dK and dV";
  const RunShape shape{.batch = 1, .n_q = 64, .n_k = 64, .heads = 2, .kv_heads = 2};
  const auto made = kernel.prepare(shape);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_GT(made->compile_ms, 0);
  EXPECT_EQ(engine.cache_stats().compiled, 3U);
  EXPECT_EQ(kernel.prepare(shape)->compile_ms, 0);
}

}  // namespace
}  // namespace weft::test
