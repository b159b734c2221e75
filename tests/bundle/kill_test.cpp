#include "kernels_cache/bundle/reader.h"
#include "tests/bundle/command.h"
#include "tests/store/tracer.h"
#include "tests/support/effort.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

/// R1 of a bundle's building: killed in front of any of its system calls it leaves no bundle or a whole one, and the
/// same command goes on and comes to the same bytes.
namespace weft::test {
namespace {

namespace fs = std::filesystem;
using store_test::kKill;

class KilledBuild : public Commands {
 protected:
  void SetUp() override {
#ifdef WEFT_SANITIZED
    GTEST_SKIP() << "a sanitized command starts slowly, and dies the same";
#endif
    if (const auto why = store_test::cannot_trace(); !why.empty()) GTEST_SKIP() << why;
    built("whole.wfb");
    whole_ = contents(path("whole.wfb"));
    keep_finished_kernels();
  }

  /// The folder of a build that was killed when all its kernels were there: with it a build compiles nothing, and
  /// makes the same system calls each time.
  void keep_finished_kernels() {
    const auto ended =
        store_test::traced([&] { return become_build(); },
                           [&](const store_test::Call& call, std::size_t) {
                             return call.number == SYS_rename && call.second_path.ends_with("x.wfb") ? kKill : 0;
                           });
    ASSERT_TRUE(ended.killed);
    ASSERT_FALSE(fs::exists(path("x.wfb")));
    fs::rename(path("x.wfb.partial"), path("finished"));
  }

  void start_over() {
    std::error_code none;
    fs::remove(path("x.wfb"), none);
    fs::remove_all(path("x.wfb.partial"), none);
    fs::copy(path("finished"), path("x.wfb.partial"), fs::copy_options::recursive);
  }

  /// Killed in front of this one of its calls about files. Waiting and memory come out differently each time.
  store_test::Ended killed_at(std::size_t at) const {
    return store_test::traced([&] { return become_build(); },
                              [&, index = std::size_t{0}](const store_test::Call& call, std::size_t) mutable {
                                return is_about_files(call) && index++ == at ? kKill : 0;
                              });
  }

  /// The command in the traced process, one thread doing everything.
  int become_build() const {
    const auto words = build("x.wfb", {"--jobs", "1", "--quiet"});
    std::vector<char*> arguments = {const_cast<char*>("weft")};
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::setenv("WEFT_CACHE_DIR", path(".store").c_str(), 1);
    ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // it does not work in a traced process
    ::execv(WEFT_COMMAND, arguments.data());
    return 126;
  }

  std::string whole_;
};

TEST_F(KilledBuild, LeavesNothingOrAWholeBundle) {
  start_over();
  const auto undisturbed = store_test::traced([&] { return become_build(); });
  ASSERT_EQ(undisturbed.status, 0);
  ASSERT_EQ(contents(path("x.wfb")), whole_);
  const auto calls = static_cast<std::size_t>(
      std::count_if(undisturbed.calls.begin(), undisturbed.calls.end(), store_test::is_about_files));
  EXPECT_GT(calls, 100U);
  // The loader's and those that read are many and all alike; the writing comes at the end.
  const bool all = tries_all();
  const std::size_t last = all ? 60 : 25, step = 1 + calls / (all ? 80 : 8);
  std::size_t kills = 0, with_bundle = 0;
  for (std::size_t at = 0; at < calls; at = at + last < calls ? std::min(at + step, calls - last) : at + 1) {
    start_over();
    const auto ended = killed_at(at);
    kills += ended.killed;
    if (fs::exists(path("x.wfb"))) {
      ++with_bundle;
      ASSERT_EQ(contents(path("x.wfb")), whole_) << "killed before call " << at;
    }
    if (!all && kills % 5 != 0) continue;
    built("x.wfb", {"--jobs", "1"});
    ASSERT_EQ(contents(path("x.wfb")), whole_) << "after being killed before call " << at;
    ASSERT_FALSE(fs::exists(path("x.wfb.partial")));
  }
  EXPECT_GT(kills, 25U);
  EXPECT_GT(with_bundle, 0U) << "some died after the rename";
  EXPECT_LT(with_bundle, kills) << "and some before";
  std::printf("counted: %zu system calls killed at\n", kills);
}

}  // namespace
}  // namespace weft::test
