#include "kernels_cache/flights.h"
#include "kernels_cache/once.h"
#include "tests/cache/processes.h"
#include "tests/store/work.h"
#include "tests/support/effort.h"

#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

/// R13, R14, R16: processes and threads at work while files vanish, writers die and processes fork.
namespace weft::store_test {
namespace {

constexpr int kKeys = 12;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kOwnAllocator = true;
#else
constexpr bool kOwnAllocator = false;
#endif

class ChaosTest : public StoreWorkTest {
 protected:
  static Entry entry_of(int i) { return cache::sample_entry(std::string(static_cast<std::size_t>(500 * i), 'x')); }

  /// Gets and makes entries in any order; true if each was the right one.
  bool serve(unsigned seed, int times, std::uint64_t cap = 1 << 20) const {
    std::mt19937 random(seed);
    const auto store = open(cap);
    for (int i = 0; i < times; ++i) {
      const int wanted = static_cast<int>(random() % kKeys);
      auto found = store->get(other_key(wanted));
      if (found.outcome == Outcome::corrupt) return false;
      if (!found.entry) {
        cache::Making making;
        making.make = [wanted]() -> Result<Entry> { return entry_of(wanted); };
        auto made = cache::make_once(*store, other_key(wanted), making);
        if (!made.ok()) return false;
        found.entry = std::move(made->entry);
      }
      if (!(*found.entry == entry_of(wanted))) return false;
    }
    return true;
  }

  /// Deletes anything, now and then everything, until it is killed.
  bool vandal(unsigned seed) const {
    std::mt19937 random(seed);
    for (;;) {
      std::error_code ignored;
      std::vector<fs::path> all;
      for (auto it = fs::recursive_directory_iterator(root(), ignored); it != fs::recursive_directory_iterator();
           it.increment(ignored)) {
        all.push_back(it->path());
      }
      if (random() % 50 == 0) fs::remove_all(root(), ignored);
      if (!all.empty()) fs::remove_all(all[random() % all.size()], ignored);
      ::usleep(200);
    }
  }
};

TEST_F(ChaosTest, RandomDeletionsCostRecompilesOnly) {
  const pid_t enemy = cache::in_process([&] { return vandal(1); });
  std::vector<pid_t> workers;
  for (unsigned i = 0; i < 6; ++i) {
    workers.push_back(cache::in_process([&] { return serve(i, test::effort(500, 3000)); }));
  }
  for (const pid_t worker : workers) EXPECT_TRUE(cache::succeeded(worker));
  ::kill(enemy, SIGKILL);
  EXPECT_FALSE(cache::succeeded(enemy)) << "the control: it was at work to the end";
  EXPECT_TRUE(serve(99, 50));
  EXPECT_EQ(open()->verify().bad.size(), 0U);
  cache::counted(6, "processes raced against deletions");
}

TEST_F(ChaosTest, KilledWorkersCostNothing) {
  std::mt19937 random(5);
  std::vector<pid_t> victims;
  const pid_t steady = cache::in_process([&] { return serve(77, test::effort(500, 3000)); });
  for (int i = 0; i < test::effort(60, 400); ++i) {
    const pid_t victim = cache::in_process([&] { return serve(static_cast<unsigned>(i), 1'000'000, 8000); });
    ::usleep(static_cast<useconds_t>(500 + random() % 10'000));
    ::kill(victim, SIGKILL);
    EXPECT_FALSE(cache::succeeded(victim));
  }
  EXPECT_TRUE(cache::succeeded(steady));
  const auto store = open();
  EXPECT_EQ(store->verify().bad.size(), 0U);
  age_everything();
  store->prune(1 << 20);
  EXPECT_EQ(leftovers(), 0U);
  cache::counted(static_cast<std::uint64_t>(test::effort(60, 400)), "processes killed at any time");
}

/// Threads and forks: what is in the middle of being made when a process forks is made anew in the child.
TEST_F(ChaosTest, ThreadsAndForksShareAStore) {
  if (kOwnAllocator) GTEST_SKIP() << "the sanitizer's allocator does not survive a fork amid allocations";
  const auto store = open();
  cache::Flights<bool> flights;
  const auto want = [&](int i) {
    return *flights
                .join(std::to_string(i),
                      [&] {
                        cache::Making making;
                        making.make = [i]() -> Result<Entry> { return entry_of(i); };
                        if (const auto found = store->get(other_key(i)); found.entry)
                          return *found.entry == entry_of(i);
                        const auto made = cache::make_once(*store, other_key(i), making);
                        return made.ok() && made->entry == entry_of(i);
                      })
                .value;
  };
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      while (!stop) {
        if (!want(static_cast<int>(random() % kKeys))) ++wrong;
        if (random() % 20 == 0) store->clear();
      }
    });
  }
  std::vector<pid_t> children;
  for (int i = 0; i < test::effort(60, 300); ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);  // one that hangs fails
      bool fine = true;
      for (int k = 0; k < kKeys; ++k) fine = fine && want(k);
      ::_exit(fine ? 0 : 1);
    }
    children.push_back(child);
    ::usleep(2000);
  }
  for (const pid_t child : children) EXPECT_TRUE(cache::succeeded(child));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  cache::counted(children.size(), "processes forked amid compilations");
}

/// R13: two versions of Weft in one root, each with its format, and all that either does.
TEST_F(ChaosTest, OtherFormatsAreLeftAlone) {
  const fs::path other = root() / ("kernels-" + std::to_string(cache::kFormat + 1));
  put_old();
  fs::copy(format_root(), other, fs::copy_options::recursive);
  for (const auto& item : fs::recursive_directory_iterator(other)) {
    ::chmod(item.path().c_str(), item.is_directory() ? 0700 : 0600);
    if (!item.is_regular_file() || item.file_size() < 100) continue;
    std::string bytes = cache::contents(item.path());
    bytes[8] = static_cast<char>(cache::kFormat + 1);
    cache::overwrite(item.path(), bytes);
  }
  // One that strayed into this format's directory is a miss, and stays.
  fs::copy_file(other / key().digest().substr(0, 2) / key().digest().substr(2), file(),
                fs::copy_options::overwrite_existing);
  const auto listing = [&] {
    std::map<std::string, std::string> out;
    for (const auto& item : fs::recursive_directory_iterator(other)) {
      if (item.is_regular_file()) out[item.path()] = cache::contents(item.path());
    }
    return out;
  };
  const auto before = listing();
  const auto store = open(4000);
  EXPECT_EQ(store->get(key()).outcome, Outcome::other_format);
  EXPECT_TRUE(fs::exists(file()));
  EXPECT_TRUE(serve(1, 200, 4000));
  store->verify();
  store->prune(0);
  store->clear();
  EXPECT_EQ(listing(), before);
  EXPECT_EQ(store->list().size(), 0U) << "the control: one's own are gone";
}

}  // namespace
}  // namespace weft::store_test
