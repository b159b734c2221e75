#include "tests/cache/fixture.h"

#include <sys/wait.h>

#include <thread>

namespace weft::cache {
namespace {

/// An entry whose parts must come from one writer.
Entry entry_of(int writer) {
  const std::string text(static_cast<std::size_t>(20000 + writer), static_cast<char>('a' + writer));
  return {.binary = text, .source = text, .plan = text, .launch = text};
}

bool is_whole(const Entry& entry) {
  for (int writer = 0; writer < 8; ++writer) {
    if (entry == entry_of(writer)) return true;
  }
  return false;
}

/// Puts and gets one key; true if every entry seen was one writer's, whole.
bool hammer(Store& store, int writer) {
  for (int i = 0; i < 40; ++i) {
    if (!store.put(sample_key(), entry_of(writer)).published) return false;
    const Lookup found = store.get(sample_key());
    if (found.outcome != Outcome::hit || !is_whole(*found.entry)) return false;
  }
  return true;
}

TEST_F(StoreTest, ThreadsOnOneKeySeeOnlyWholeEntries) {
  const auto store = open();
  std::vector<std::thread> threads;
  std::vector<char> fine(6);
  for (std::size_t i = 0; i < fine.size(); ++i) {
    threads.emplace_back([&, i] { fine[i] = hammer(*store, static_cast<int>(i)) ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  for (char ok : fine) EXPECT_EQ(ok, 1);
  EXPECT_EQ(store->stats().hits(), 240U);
  EXPECT_EQ(store->stats().misses(), 0U);
  EXPECT_EQ(std::distance(fs::directory_iterator(shard(sample_key())), {}), 1);
}

TEST_F(StoreTest, ProcessesOnOneKeySeeOnlyWholeEntries) {
  const auto inherited = open();
  std::vector<pid_t> children;
  for (int writer = 0; writer < 6; ++writer) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    // Half of them use a store opened before the fork.
    if (child == 0) _exit(hammer(writer % 2 == 0 ? *inherited : *open(), writer) ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(open()->get(sample_key()).outcome, Outcome::hit);
  EXPECT_EQ(std::distance(fs::directory_iterator(shard(sample_key())), {}), 1) << "nothing is left behind";
}

// The control for the two tests above: one who writes in place is seen, and still nothing torn is loaded.
TEST_F(StoreTest, AWriterInPlaceIsCaught) {
  const auto store = open();
  store->put(sample_key(), entry_of(0));
  std::atomic<bool> stop{false};
  std::thread vandal([&] {
    for (int i = 0; !stop; ++i) overwrite(file(sample_key()), encode(sample_key().text(), entry_of(i % 8)));
  });
  bool caught = false;
  for (int i = 0; i < 100000 && !caught; ++i) {
    const Lookup found = store->get(sample_key());
    if (found.entry) {
      EXPECT_TRUE(is_whole(*found.entry));
    }
    caught = found.outcome == Outcome::corrupt || found.outcome == Outcome::unreadable;
  }
  stop = true;
  vandal.join();
  EXPECT_TRUE(caught);
}

TEST_F(StoreTest, AKilledWriterLeavesNothingThatLoads) {
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto store = open();
      for (int i = 0;; ++i) store->put(sample_key(), entry_of(i % 8));
    }
    usleep(static_cast<useconds_t>(500 + 700 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const Lookup found = open()->get(sample_key());
    EXPECT_TRUE(found.outcome == Outcome::absent || (found.outcome == Outcome::hit && is_whole(*found.entry)))
        << found.detail;
  }
}

TEST_F(StoreTest, DeletionsDuringAStormCostMissesOnly) {
  const auto store = open();
  std::atomic<bool> stop{false};
  std::thread sweeper([&] {
    while (!stop) {
      store->clear();
      store->prune(0);
    }
  });
  int whole = 0;
  for (int i = 0; i < 200; ++i) {
    // A sweep may take a file away while it is being written: that is a put that failed, not an error.
    (void)store->put(sample_key(), entry_of(i % 8));
    const Lookup found = store->get(sample_key());
    ASSERT_TRUE(found.outcome == Outcome::absent || found.outcome == Outcome::hit) << found.detail;
    if (found.entry) {
      ASSERT_TRUE(is_whole(*found.entry));
      ++whole;
    }
  }
  stop = true;
  sweeper.join();
  RecordProperty("whole", whole);
}

}  // namespace
}  // namespace weft::cache
