/// What a host program has current, its GPUs and its streams, around everything that an engine does.

#include "engine_fixture.h"
#include "tests/support/effort.h"
#include "tests/support/program.h"

namespace weft::test {
namespace {

constexpr std::uint64_t kOfAnotherLibrary = 0x77;

/// Compile, prepare, run, destroy, each with `before` current; where that is not so afterwards, the test fails.
TEST_F(CudaEngine, EveryEntryPutsTheCallersContextBack) {
  driver().devices = {{"One", 61}, {"Two", 61}};
  for (const std::uint64_t before : {std::uint64_t{0}, kOfAnotherLibrary, primary(0), primary(1)}) {
    new_name();
    driver().forget();
    set_current(before);
    const auto expect_back = [&](const char* after) { EXPECT_EQ(current(), before) << "after " << after; };
    {
      const Engine engine(options());
      auto kernel = std::make_unique<Kernel>(compile(engine, kLongnet, f32("cuda:1")));
      expect_back("compile");
      Problem problem(2, 40, 2, 32);
      const OnDevice memory(device_of(*kernel), problem);
      const std::vector<std::int64_t> offsets = {0, 5};
      ASSERT_TRUE(kernel->prepare({.batch = 2, .n_q = 40, .n_k = 40, .heads = 2, .kv_heads = 2}).ok());
      expect_back("prepare");
      auto args = memory.args(problem);
      args.offset = offsets;
      ASSERT_TRUE(kernel->run(args).ok());
      expect_back("run");
      args.q.data = problem.q.data();
      EXPECT_FALSE(kernel->run(args).ok());
      expect_back("a refused run");
      kernel.reset();
      expect_back("the kernel's end");
    }
    expect_back("the engine's end");
    for (const auto& launched : driver().launches) EXPECT_EQ(launched.context, primary(1));
    EXPECT_GT(driver().launches.size(), 0u);
    expect_nothing_alive();
  }
}

TEST_F(CudaEngine, TwoGpusOfAProcessKeepToThemselves) {
  driver().devices = {{"One", 61}, {"Two", 61}};
  {
    const Engine engine(options());
    const Kernel kernels[] = {compile(engine, kLongnet, f32("cuda:0")), compile(engine, kLongnet, f32("cuda:1"))};
    Problem problem(2, 40, 2, 32);
    const OnDevice memory[] = {{device_of(kernels[0]), problem}, {device_of(kernels[1]), problem}};
    const std::vector<std::int64_t> offsets = {0, 5};  // so that each takes scratch, on one stream's handle
    emulate(kernels[0]);
    for (const std::size_t number : {0U, 1U, 0U, 1U}) {
      set_current(primary(1 - static_cast<int>(number)));
      auto args = memory[number].args(problem);
      args.offset = offsets;
      const auto status = kernels[number].run(args);
      ASSERT_TRUE(status.ok()) << status.error().message;
      EXPECT_EQ(driver().launches.back().context, primary(static_cast<int>(number)));
      EXPECT_EQ(driver().owners.at(reinterpret_cast<std::uint64_t>(driver().launches.back().args.tables)),
                primary(static_cast<int>(number)));
    }
    for (const auto& one : memory) {
      one.fetch(problem);
      expect_meaning(kLongnet, problem, offsets);
    }
    const auto wrong = kernels[1].run(memory[0].args(problem));
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().kind, ErrorKind::user);
    EXPECT_EQ(wrong.error().message, "q lies on GPU 0; the kernel runs on GPU 1");
    set_current(0);
  }
  expect_nothing_alive();
}

TEST_F(CudaEngine, AStreamOfAnotherGpuIsSaidToBeOne) {
  driver().devices = {{"One", 61}, {"Two", 61}};
  const Engine engine(options());
  const auto kernel = compile(engine, kLongnet, f32("cuda:1"));
  Problem problem(1, 40, 2, 32);
  const OnDevice memory(device_of(kernel), problem);
  auto args = memory.args(problem);
  args.stream = reinterpret_cast<void*>(0x99);
  driver().streams[0x99] = primary(0);
  const auto status = kernel.run(args);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::user);
  EXPECT_EQ(status.error().message.find("the stream is none of GPU 1"), 0u) << status.error().message;
  driver().streams[0x99] = primary(1);
  EXPECT_TRUE(kernel.run(args).ok());
}

/// Whichever call of a launch reports what failed before it: neither the launch nor Weft is blamed, and nothing stored
/// is thrown away for it.
TEST_F(CudaEngine, AnEarlierFaultIsNotThisLaunchs) {
  const Engine engine(options());
  const auto kernel = compile(engine, kLongnet, f32());
  Problem problem(2, 40, 2, 32);
  const OnDevice memory(device_of(kernel), problem);
  auto args = memory.args(problem);
  args.stream = reinterpret_cast<void*>(0x99);
  std::map<std::string, int> failed;
  for (int at = 0;; ++at) {
    driver().forget();
    driver().fail_with = 700;
    driver().fail_at = at;
    const auto status = kernel.run(args);
    driver().fail_at = -1;
    if (driver().failed.empty()) break;
    ++failed[driver().failed];
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::environment) << status.error().message;
    ASSERT_GE(status.error().notes.size(), 1u);
    EXPECT_NE(status.error().notes[0].find("queued earlier"), std::string::npos);
  }
  EXPECT_GE(failed["cuPointerGetAttributes"], 1);
  EXPECT_GE(failed["cuLaunchKernel"], 1);

  driver().forget();
  driver().refuse_images = 1;
  driver().refuse_with = 700;
  const Engine later(options());
  const auto refused = later.compile(kLongnet, f32());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::environment) << refused.error().message;
  EXPECT_EQ(later.cache_stats().compiled, 0u);
  EXPECT_EQ(compile(later, kLongnet, f32()).origin(), CacheOrigin::disk);
}

/// Gradients are several cubins; each may be refused.
TEST_F(CudaEngine, ADriverThatRefusesTheSecondKernelGetsAnother) {
  driver().devices = {{"Stand-in 8.0", 80}};
  const auto target = find_target("sm_80").value();
  std::size_t others = 0;
  for (const auto& item : nvrtc::examine().items) others += item.library != nullptr && item.library->knows(target);
  if (others < 2) GTEST_SKIP() << "one NVRTC here knows sm_80";
  auto gradient = f32();
  gradient.gradient = true;
  const bool all = tries_all();
  for (const int code : {200, 209, 218, 222}) {
    if (!all && code != 200 && code != 222) continue;
    driver().forget();
    driver().take_images = 1;
    driver().refuse_images = 1;
    driver().refuse_with = code;
    const Engine engine({.no_cache = true});
    const auto kernel = engine.compile(kCausal, gradient);
    ASSERT_TRUE(kernel.ok()) << code << ": " << kernel.error().message;
    const auto warnings = engine.take_warnings();
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_NE(warnings[0].find("another NVRTC is used"), std::string::npos) << warnings[0];
  }
}

}  // namespace
}  // namespace weft::test
