/// What an engine for GPUs compiles for, and with what: targets, PTX for GPUs that no cubin fits, and which NVRTC is
/// taken where a driver refuses what another made.

#include "engine_fixture.h"
#include "runtime/engine/compilation.h"
#include "tests/support/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>

namespace weft::test {
namespace {

TEST_F(CudaEngine, CompilingNeedsNoGpu) {
  driver().devices.clear();
  new_name();
  const Engine engine(options());
  const auto kernel = compile(engine, kLongnet, f32("sm_61"));
  EXPECT_GT(kernel.registers().value_or(0), 16);
  Problem problem(1, 40, 2, 32);
  const auto status = kernel.run(problem.args());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::environment);
  EXPECT_EQ(status.error().message, "no GPU of this machine executes sm_61");
  EXPECT_EQ(engine.compile(kLongnet, f32("cuda")).error().kind, ErrorKind::environment);
}

TEST_F(CudaEngine, TargetsFindTheirGpu) {
  driver().devices = {{"Ampere", 86}, {"Pascal", 61}};
  new_name();
  const Engine engine(options());
  EXPECT_EQ(device_of(compile(engine, kLongnet, f32("sm_61")))->info().number, 1);
  const auto second = compile(engine, kLongnet, f32("cuda:1"));
  EXPECT_EQ(second.target(), "sm_61");
  EXPECT_EQ(device_of(second)->info().number, 1);
  const auto beyond = engine.compile(kLongnet, f32("cuda:2"));
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().kind, ErrorKind::environment);
  const auto wrong = engine.compile(kLongnet, f32("cuda:x"));
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().kind, ErrorKind::user);
}

/// PTX goes to the driver, under a key of its own; nothing else tells it from a cubin.
TEST_F(CudaEngine, AGpuThatIsNewerThanEveryTargetRunsPtx) {
  driver().devices = {{"Later", 130}};
  new_name();
  const auto target = find_target("sm_121:ptx").value();
  if (!nvrtc::locate(target)) GTEST_SKIP() << "no NVRTC here knows sm_121; ./dev setup brings one";
  for (const auto origin : {CacheOrigin::miss, CacheOrigin::disk}) {
    driver().forget();
    const Engine engine(options());
    const auto kernel = compile(engine, kCausal, f32());
    EXPECT_EQ(kernel.target(), "sm_121:ptx");
    EXPECT_EQ(kernel.origin(), origin);
    EXPECT_FALSE(kernel.registers().has_value());
    ASSERT_EQ(driver().images.size(), 1u);
    EXPECT_NE(driver().images[0].find("\n.target sm_121"), std::string::npos);
    EXPECT_NE(driver().images[0].find(".entry weft_kernel("), std::string::npos);
    expect_meaning(kernel, kCausal, Problem(1, 40, 2, 32));
  }
  const Engine engine(options());
  EXPECT_EQ(compile(engine, kCausal, f32("sm_121")).origin(), CacheOrigin::miss) << "the cubin is another entry";
}

/// A driver is older than what compiled: the next NVRTC is asked, and where there is none the error says what it runs.
TEST_F(CudaEngine, ADriverThatRefusesAKernelGetsAnother) {
  driver().devices = {{"Stand-in 8.0", 80}};
  const auto target = find_target("sm_80").value();
  std::set<std::string> known;  // one may be there twice
  for (const auto& item : nvrtc::examine().items) {
    if (item.library != nullptr && item.library->knows(target)) known.insert(item.library->identity());
  }
  const std::size_t others = known.size();
  driver().refuse_images = 1;
  const Engine engine(options());
  const auto second = engine.compile(kCausal, f32());
  const auto warnings = engine.take_warnings();
  if (others > 1) {
    ASSERT_TRUE(second.ok()) << second.error().message;
    EXPECT_EQ(engine.cache_stats().compiled, 2U);
    ASSERT_EQ(warnings.size(), 1U) << fmt::format("{}", fmt::join(warnings, "\n"));
    EXPECT_NE(warnings[0].find("another NVRTC is used"), std::string::npos) << warnings[0];
  }
  driver().refuse_images = 100;
  const Engine none({.no_cache = true});
  const auto refused = none.compile(kCausal, f32());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(none.cache_stats().compiled, others) << fmt::format("{}", fmt::join(known, "\n"));
  ASSERT_FALSE(refused.error().notes.empty());
  EXPECT_EQ(refused.error().notes[0], "the driver of Stand-in 8.0 runs what CUDA 12.4 and older made");
}

/// The same NVRTC at two places makes the same kernel, which is not offered to the driver again out of the store.
TEST_F(CudaEngine, ACompilerAtTwoPlacesIsPassedOverAtBoth) {
  namespace fs = std::filesystem;
  const auto found = nvrtc::locate(*find_target("sm_61"));
  ASSERT_TRUE(found.ok());
  const fs::path library = (*found)->path(), place = folder_ + "/twice";
  fs::create_directory(place);
  for (const auto& entry : fs::directory_iterator(library.parent_path())) {
    if (entry.path().filename().string().starts_with("libnvrtc-builtins"))
      fs::create_symlink(entry.path(), place / entry.path().filename());
  }
  for (const char* version : {"1", "2"}) fs::copy_file(library, place / (std::string("libnvrtc.so.") + version));
  auto twice = options();
  twice.nvrtc = place;
  driver().refuse_images = 1;
  const Engine engine(twice);
  const auto refused = engine.compile(kCausal, f32());
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(engine.cache_stats().compiled, 1U);
}

}  // namespace
}  // namespace weft::test
