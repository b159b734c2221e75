/// A process may fork at any time, whatever its other threads do with an engine: the child compiles, stores and runs.

#include "folder.h"
#include "problem.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace weft::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kOwnAllocator = true;
#else
constexpr bool kOwnAllocator = false;
#endif

constexpr int kThreads = 3;

class Forks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kOwnAllocator) GTEST_SKIP() << "the sanitizer's allocator does not survive a fork amid allocations";
  }
  void TearDown() override { finish(); }

  /// Does `work(round)` over and over in so many threads.
  template <typename Work>
  void busy(int threads, const Work& work) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i, work] {
        for (int round = 0; !stop_; ++round) work(100 * i + round);
      });
    }
  }
  void finish() {
    stop_ = true;
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }

  /// Forks; the child has a minute for `work`, which says whether it went well.
  template <typename Work>
  void fork_to(const Work& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      ::_exit(work() ? 0 : 1);
    }
    children_.push_back(child);
  }
  /// Ends the threads; how many children have done well.
  int done_well() {
    int out = 0;
    for (const pid_t child : children_) {
      int status = -1;
      ::waitpid(child, &status, 0);
      out += status == 0 ? 1 : 0;
      if (WIFSIGNALED(status)) ADD_FAILURE() << "a child ended by signal " << WTERMSIG(status) << "; 14: it hung";
    }
    children_.clear();
    finish();
    return out;
  }

  Folder folder_;

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
  std::vector<pid_t> children_;
};

CompileOptions f32(std::int64_t dim) { return {.dim = dim, .dtype = DType::f32}; }

bool runs(const Kernel& kernel, std::int64_t dim, const std::vector<float>* expected = nullptr) {
  Problem problem(1, 256, 2, dim);
  return kernel.run(problem.args()).ok() && (expected == nullptr || problem.out == *expected);
}

TEST_F(Forks, ChildrenRunWhatOtherThreadsRun) {
  const Engine engine({.cache_dir = folder_.path().string(), .threads = 4});
  const auto kernel = engine.compile(kLongnet, f32(16));
  ASSERT_TRUE(kernel.ok());
  Problem problem(1, 256, 2, 16);
  ASSERT_TRUE(kernel->run(problem.args()).ok());
  busy(kThreads, [&](int) { (void)runs(*kernel, 16); });
  constexpr int kForks = 20;
  for (int i = 0; i < kForks; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 3));
    fork_to([&] {
      // Its threads run side by side, too; and it forks itself.
      std::thread other([&] { (void)runs(*kernel, 16); });
      const bool well = runs(*kernel, 16, &problem.out);
      other.join();
      const pid_t grandchild = ::fork();
      if (grandchild == 0) ::_exit(runs(*kernel, 16, &problem.out) ? 0 : 1);
      int status = -1;
      ::waitpid(grandchild, &status, 0);
      return well && status == 0;
    });
  }
  EXPECT_EQ(done_well(), kForks);
}

TEST_F(Forks, ChildrenCompileStoreAndRunWhileOtherThreadsDo) {
  const Engine engine({.cache_dir = folder_.path().string(), .threads = 2});
  const auto makes = [&](std::int64_t dim) {
    const auto kernel = engine.compile(kLongnet, f32(dim));
    return kernel && runs(*kernel, dim);
  };
  busy(kThreads, [&](int round) { (void)makes(16 + 8 * (round % 30)); });
  constexpr int kForks = 8;
  for (int i = 0; i < kForks; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(7));
    fork_to([&, i] { return makes(16) && makes(16 + 8 * i) && engine.take_warnings().empty(); });
  }
  EXPECT_EQ(done_well(), kForks);
}

/// LLVM makes tables when it is first used, and a child must not wait for who was making them.
TEST_F(Forks, ChildrenCompileWhileAnotherThreadDoesForTheFirstTime) {
  const Engine engine({.no_cache = true});
  busy(1, [&](int round) { (void)engine.compile(kCausal, f32(16 + 8 * (round % 4))); });
  constexpr int kForks = 10;
  for (int i = 0; i < kForks; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
    fork_to([&] { return engine.compile(kCausal, f32(64)).ok(); });
  }
  EXPECT_EQ(done_well(), kForks);
}

}  // namespace
}  // namespace weft::test
