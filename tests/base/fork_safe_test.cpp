#include "compiler/base/fork_safe.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace weft {
namespace {

constexpr int kForks = 30;

/// Forks often while other threads take and release; the children that found the mutex free.
template <typename Mutex>
int children_that_lock(Mutex& mutex) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        mutex.lock();
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        mutex.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(500));
      }
    });
  }
  int free = 0;
  for (int i = 0; i < kForks; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    const pid_t child = ::fork();
    // Twice: one that was let go of in the wrong way is free once.
    if (child == 0) ::_exit(mutex.try_lock() && (mutex.unlock(), mutex.try_lock()) ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    free += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : 0;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return free;
}

TEST(ForkSafe, IsFreeInEveryChild) {
  ForkSafe<> mutex;
  EXPECT_EQ(children_that_lock(mutex), kForks);
}

TEST(ForkSafe, IsFreeInEveryChildAmongNestedOnes) {
  ForkSafe<> outer;
  ForkSafe<std::shared_mutex> inner;
  std::atomic<bool> stop{false};
  // Taken in the order that enrolment does not have, too.
  std::thread nested([&] {
    while (!stop) {
      {
        const std::shared_lock first(inner);
        const std::lock_guard second(outer);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  });
  EXPECT_EQ(children_that_lock(outer), kForks);
  EXPECT_EQ(children_that_lock(inner), kForks);
  stop = true;
  nested.join();
}

/// Two threads use without a pause, a third while it holds a mutex: a fork still gets through.
TEST(EndsBeforeForks, NoneGoesOnInAnyChild) {
  ForkSafe<> mutex;
  EndsBeforeForks uses;
  std::atomic<bool> stop{false};
  std::atomic<int> going_on{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      while (!stop) {
        {
          std::unique_lock outer(mutex, std::defer_lock);
          if (i == 0) outer.lock();
          const std::lock_guard use(uses);
          ++going_on;
          std::this_thread::sleep_for(std::chrono::microseconds(300));
          --going_on;
        }
        if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  int well = 0;
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);
      const bool none = going_on == 0;
      for (int again = 0; again < 2; ++again) {
        const std::lock_guard outer(mutex);
        const std::lock_guard use(uses);
      }
      // It forks, too.
      const pid_t grandchild = ::fork();
      if (grandchild == 0) ::_exit((uses.lock(), 0));
      int status = 1;
      ::waitpid(grandchild, &status, 0);
      ::_exit(none && status == 0 ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    well += status == 0 ? 1 : 0;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(well, kForks);
}

// The control.
TEST(ForkSafe, AnyOtherMutexIsNot) {
  std::mutex mutex;
  EXPECT_LT(children_that_lock(mutex), kForks);
}

}  // namespace
}  // namespace weft
