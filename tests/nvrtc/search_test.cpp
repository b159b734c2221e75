#include "runtime/nvrtc/search.h"

#include "planted.h"

#include <gtest/gtest.h>

namespace weft::nvrtc {
namespace {

/// No variable of this machine decides; its own NVRTCs stay where they are.
class NvrtcSearch : public testing::Test {
 protected:
  std::string located(const std::string& target, const std::string& option = "") {
    const auto found = locate(named(target), option);
    return found.ok() ? (*found)->path() : "error: " + found.error().message;
  }
  std::optional<Candidate> candidate(const std::string& path) {
    for (Candidate& found : installed()) {
      if (found.path == path) return std::move(found);
    }
    return std::nullopt;
  }

  Directory place_;
  Variable explicit_{"WEFT_NVRTC", ""}, loader_{"LD_LIBRARY_PATH", ""}, home_{"CUDA_HOME", ""}, path_{"CUDA_PATH", ""},
      environment_{"VIRTUAL_ENV", ""}, conda_{"CONDA_PREFIX", ""}, data_{"XDG_DATA_HOME", ""};
};

TEST_F(NvrtcSearch, TakesTheNewestThatKnowsTheArchitecture) {
  const std::string old = plant(place_, kFake11_8), middle = plant(place_, kFake12_9),
                    recent = plant(place_, kFake13_5);
  EXPECT_EQ(located("sm_90a", place_.path()), recent);
  EXPECT_EQ(located("sm_61", place_.path()), middle) << "13 does not know it";
  EXPECT_EQ(located("sm_75", place_.path()), recent);
  fs::remove(middle);
  EXPECT_EQ(located("sm_61", place_.path()), old);
  fs::remove(recent);
  EXPECT_EQ(located("sm_90", place_.path()), old);
  EXPECT_EQ(located("sm_90a", place_.path()).substr(0, 6), "error:") << "11.8 knows 90, but not what is special to it";
  fs::remove(old);
  const auto none = locate(named("sm_61"), place_.path());
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::environment);
  EXPECT_TRUE(mentions(none.error(), "./dev setup")) << "how to mend it";
}

/// None that is newer than the driver while there is another; then the one that is newer by the least.
TEST_F(NvrtcSearch, KeepsToWhatTheDriverRuns) {
  const std::string old = plant(place_, kFake11_8), middle = plant(place_, kFake12_9),
                    recent = plant(place_, kFake13_5);
  const auto located_for = [&](const char* target, const Runnable& runnable) {
    const auto found = locate(named(target), place_.path(), runnable);
    return found.ok() ? (*found)->path() : "error: " + found.error().message;
  };
  EXPECT_EQ(located_for("sm_80", {}), recent);
  EXPECT_EQ(located_for("sm_80", {.newest_major = 13}), recent);
  EXPECT_EQ(located_for("sm_80", {.newest_major = 12}), middle);
  EXPECT_EQ(located_for("sm_80", {.newest_major = 11}), old);
  EXPECT_EQ(located_for("sm_90a", {.newest_major = 11}), middle) << "11.8 does not know it";
  EXPECT_EQ(located_for("sm_80", {.newest_major = 10}), old) << "all are newer";
  EXPECT_EQ(located_for("sm_80", {.newest_major = 12, .refused = {middle}}), old);
  EXPECT_EQ(located_for("sm_80", {.newest_major = 12, .refused = {middle, old}}), recent);
  const auto none = locate(named("sm_80"), place_.path(), {.newest_major = 12, .refused = {middle, old, recent}});
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(mentions(none.error(), "passed over " + recent + " (13.5): the driver does not take its kernels"));
}

TEST_F(NvrtcSearch, SaysWhyEachWasPassedOver) {
  const std::string recent = plant(place_, kFake13_5);
  const std::string broken = place_.file("more/lib/libnvrtc.so.14", "no library");
  const auto none = locate(named("sm_61"), place_.path());
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(mentions(none.error(), "passed over " + recent + " (13.5): it knows sm_75 to sm_121"));
  EXPECT_FALSE(mentions(none.error(), broken)) << "another folder";
  const auto also = locate(named("sm_61"), place_.path("more"));
  ASSERT_FALSE(also.ok());
  EXPECT_TRUE(mentions(also.error(), broken + " is not a 64-bit shared library"));
}

TEST_F(NvrtcSearch, OtherNamesAreNoNvrtc) {
  for (const char* name : {"libnvrtc.alt.so.12", "libnvrtc.so.12.old", "libnvrtc.a", "libnvrtc-builtins.so.12.9"}) {
    place_.copy(kFake12_9.built, name);
  }
  EXPECT_TRUE(examine(place_.path()).items.empty());
  plant(place_, kFake12_9);
  EXPECT_EQ(examine(place_.path()).items.size(), 1U);
}

TEST_F(NvrtcSearch, AnExplicitOneIsNeverSilentlyReplaced) {
  const std::string recent = plant(place_, kFake13_5, "recent"), middle = plant(place_, kFake12_9, "middle");
  {
    const Variable variable("WEFT_NVRTC", recent);
    EXPECT_EQ(located("sm_80"), recent);
    const auto refused = locate(named("sm_61"));
    ASSERT_FALSE(refused.ok());
    EXPECT_TRUE(mentions(refused.error(), "WEFT_NVRTC"));
    EXPECT_EQ(located("sm_61", middle), middle) << "the option is nearer";
  }
  const Variable variable("WEFT_NVRTC", "/nonexistent/libnvrtc.so");
  const auto absent = locate(named("sm_80"));
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().kind, ErrorKind::environment);
  EXPECT_TRUE(mentions(absent.error(), "/nonexistent/libnvrtc.so"));
  const auto report = examine();
  EXPECT_TRUE(report.items.empty());
  EXPECT_NE(report.missing.find("/nonexistent/libnvrtc.so"), std::string::npos);
  EXPECT_NE(report.mend, "");
}

TEST_F(NvrtcSearch, LibrariesThatCannotServeAreRefused) {
  const std::string text = place_.file("libnvrtc.so.1", "no library");
  EXPECT_EQ(located("sm_80", text).substr(0, 6), "error:");
  const auto other = locate(named("sm_80"), "/lib/x86_64-linux-gnu/libm.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_TRUE(mentions(other.error(), "it has no function nvrtcVersion"));
  const std::string alone = place_.copy(kFake13_5.built, "alone/libnvrtc.so.13");
  const auto lonely = locate(named("sm_80"), alone);
  ASSERT_FALSE(lonely.ok());
  EXPECT_TRUE(mentions(lonely.error(), "libnvrtc-builtins.so.13.5"));
  EXPECT_FALSE(locate(named("cpu:x86-64")).ok());
}

TEST_F(NvrtcSearch, LooksWhereNvidiaAndPythonPutIt) {
  const std::string python = place_.path("venv") + "/bin/python3";
  place_.file("bin/python3", "#!/bin/sh\n");
  fs::permissions(place_.path("bin/python3"), fs::perms::owner_all);
  struct Case {
    const char* variable;
    std::string value;
    const char* folder;
    std::string origin;
  };
  const Case cases[] = {
      {"LD_LIBRARY_PATH", "/nonexistent:" + place_.path("l"), "l", "loader's path"},
      {"CUDA_HOME", place_.path("c"), "c/lib64", "CUDA_HOME"},
      {"CUDA_HOME", place_.path("t"), "t/targets/x86_64-linux/lib", "CUDA_HOME"},
      {"CUDA_PATH", place_.path("d"), "d/lib", "CUDA_PATH"},
      {"CONDA_PREFIX", place_.path("e"), "e/lib", "CONDA_PREFIX"},
      {"VIRTUAL_ENV", place_.path("v"), "v/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib", "Python packages"},
      {"VIRTUAL_ENV", place_.path("w"), "w/lib/python3.14/site-packages/nvidia/cu13/lib", "Python packages"},
      {"HOME", place_.path("h"), "h/.local/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib", "Python packages"},
      {"PATH", "/nonexistent:" + place_.path("bin"), "lib/python3.13/site-packages/nvidia/cuda_nvrtc/lib",
       "Python packages"},
      {"PATH", "/nonexistent:" + place_.path("bin"), "versions/3.9/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib",
       "Python packages"},
      {"XDG_DATA_HOME", place_.path("x"), "x/weft/nvrtc", "Weft's data folder"},
      {"HOME", place_.path("y"), "y/.local/share/weft/nvrtc", "Weft's data folder"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.folder);
    const std::string planted = plant(place_, kFake13_5, one.folder);
    EXPECT_FALSE(candidate(planted)) << "the control: found without the variable";
    const Variable variable(one.variable, one.value);
    const auto found = candidate(planted);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->origin, one.origin);
    EXPECT_EQ(found->version.text(), "13.5");
    fs::remove(planted);
  }
}

TEST_F(NvrtcSearch, EqualReleasesGoByTheOrderOfPlaces) {
  const std::string in_data = plant(place_, kFake13_5, "x/weft/nvrtc");
  const std::string in_home = plant(place_, kFake13_5, "c/lib64");
  const Variable data("XDG_DATA_HOME", place_.path("x")), home("CUDA_HOME", place_.path("c"));
  std::vector<std::string> order;
  for (const Candidate& found : installed()) {
    if (found.path == in_data || found.path == in_home) order.push_back(found.path);
  }
  EXPECT_EQ(order, (std::vector<std::string>{in_home, in_data}));
  EXPECT_EQ(located("sm_80"), in_home) << "and it is the newest here";
}

TEST_F(NvrtcSearch, ALinkIsItsFile) {
  const std::string real = plant(place_, kFake12_9);
  fs::create_symlink(real, place_.path("libnvrtc.so"));
  EXPECT_EQ(examine(place_.path()).items.size(), 1U);
  EXPECT_EQ(located("sm_61", place_.path("libnvrtc.so")), real);
}

TEST_F(NvrtcSearch, AFileWhoseNameDoesNotTellIsAsked) {
  place_.copy(kFake12_9.built, "libnvrtc-builtins.so.12.8");  // which of the two it goes with does not show
  const std::string real = plant(place_, kFake12_9);
  const auto report = examine(place_.path());
  ASSERT_EQ(report.items.size(), 1U);
  EXPECT_EQ(report.items[0].candidate.version.text(), "12.9");
}

TEST_F(NvrtcSearch, IdentityTellsBuildsApart) {
  const std::string recent = plant(place_, kFake13_5, "a"), middle = plant(place_, kFake12_9, "b");
  const auto first = identity(named("sm_80"), recent), second = identity(named("sm_80"), middle);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(*first, *identity(named("sm_80"), plant(place_, kFake13_5, "c"))) << "where it lies says nothing";
  // Other builtins give other bytes, too.
  const std::string mixed = plant(place_, kFake13_5, "d");
  std::ofstream(place_.path("d/libnvrtc-builtins.so.13.5"), std::ios::app) << "x";
  EXPECT_NE(*first, *identity(named("sm_80"), mixed));
}

TEST_F(NvrtcSearch, TheReportSaysWhatCompilesForWhat) {
  const std::string middle = plant(place_, kFake12_9), recent = plant(place_, kFake13_5);
  const auto report = examine(place_.path());
  ASSERT_EQ(report.items.size(), 2U);
  ASSERT_NE(report.for_target(named("sm_61")), nullptr);
  EXPECT_EQ(report.for_target(named("sm_61"))->path(), middle);
  EXPECT_EQ(report.for_target(named("sm_90a"))->path(), recent);
  EXPECT_EQ(report.mend, "") << "together they know every target";
  fs::remove(middle);
  const auto lacking = examine(place_.path());
  EXPECT_EQ(lacking.for_target(named("sm_61")), nullptr);
  EXPECT_NE(lacking.mend, "");
}

}  // namespace
}  // namespace weft::nvrtc
