#include "kernels_cache/once.h"

#include "kernels_cache/flights.h"
#include "tests/cache/fixture.h"
#include "tests/cache/processes.h"

#include <fcntl.h>
#include <signal.h>

#include <atomic>
#include <thread>

/// One compilation for many who want it. A compiler here is a function that adds one byte to a file.
namespace weft::cache {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class OnceTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    runtime_.emplace("XDG_RUNTIME_DIR", base().string());
  }

  Making counting(milliseconds takes = milliseconds(100)) const {
    Making making;
    making.make = [this, takes]() -> Result<Entry> {
      append("compiled");
      std::this_thread::sleep_for(takes);
      return sample_entry();
    };
    return making;
  }

  void append(const char* name) const {
    const int file = ::open((base() / name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (::write(file, "x", 1) != 1) std::abort();
    ::close(file);
  }
  std::size_t compiled() const {
    return fs::exists(base() / "compiled") ? fs::file_size(base() / "compiled") : std::size_t{0};
  }
  void wait_for_compilations(std::size_t count) const {
    while (compiled() < count) std::this_thread::sleep_for(milliseconds(1));
  }

  /// A process that wants the sample entry, as one of many; its status is 0 where it got it.
  pid_t want(const Making& making) const {
    return in_process([&] {
      const auto store = open();
      if (store->get(sample_key()).entry) return true;
      const auto made = make_once(*store, sample_key(), making);
      return made.ok() && made->entry == sample_entry();
    });
  }

  fs::path lock_file() const { return base() / "weft" / ("weft-" + open()->lock_name(sample_key().digest())); }

 private:
  std::optional<Variable> runtime_;
};

TEST_F(OnceTest, OneOf64ProcessesCompiles) {
  std::vector<pid_t> processes;
  for (int i = 0; i < 64; ++i) processes.push_back(want(counting()));
  for (const pid_t process : processes) EXPECT_TRUE(succeeded(process));
  EXPECT_EQ(compiled(), 1U);
  counted(64, "processes raced for one key");
  EXPECT_FALSE(fs::exists(lock_file())) << "nothing is left behind";
}

// The control: without a place for locks, all is right but for the number of compilations.
TEST_F(OnceTest, WithoutLocksSeveralCompileAndAllAreServed) {
  const Variable no_place("XDG_RUNTIME_DIR", "/dev/null");
  std::vector<pid_t> processes;
  for (int i = 0; i < 16; ++i) processes.push_back(want(counting()));
  for (const pid_t process : processes) EXPECT_TRUE(succeeded(process));
  EXPECT_GT(compiled(), 1U);
  EXPECT_EQ(open()->get(sample_key()).outcome, Outcome::hit);
}

TEST_F(OnceTest, AKilledHolderHasOneSuccessor) {
  const pid_t holder = want(counting(std::chrono::hours(1)));
  wait_for_compilations(1);
  std::vector<pid_t> processes;
  for (int i = 0; i < 64; ++i) processes.push_back(want(counting()));
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_EQ(compiled(), 1U) << "they wait";
  ::kill(holder, SIGKILL);
  const auto killed = Clock::now();
  EXPECT_FALSE(succeeded(holder));
  for (const pid_t process : processes) EXPECT_TRUE(succeeded(process));
  EXPECT_EQ(compiled(), 2U);
  EXPECT_LT(Clock::now() - killed, std::chrono::seconds(20)) << "nobody waits for the dead, who had an hour to go";
  counted(65, "processes raced for one key");
}

TEST_F(OnceTest, AKilledHoldersChildHoldsNothing) {
  const pid_t holder = in_process([&] {
    const Lock lock = Locks().acquire({.name = "held", .at_most = milliseconds(1000)});
    if (::fork() == 0) {
      ::sleep(4);
      ::_exit(0);
    }
    append("compiled");
    ::pause();
    return static_cast<bool>(lock);
  });
  wait_for_compilations(1);
  EXPECT_FALSE(Locks().acquire({.name = "held", .at_most = milliseconds(10)}));
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  EXPECT_TRUE(Locks().acquire({.name = "held", .at_most = milliseconds(2000)}));
}

TEST_F(OnceTest, AStoppedHolderStopsNobodyElse) {
  const pid_t holder = want(counting(std::chrono::hours(1)));
  wait_for_compilations(1);
  ::kill(holder, SIGSTOP);
  Making making = counting();
  making.longest_wait = milliseconds(300);
  std::vector<pid_t> processes;
  for (int i = 0; i < 16; ++i) processes.push_back(want(making));
  for (const pid_t process : processes) EXPECT_TRUE(succeeded(process));
  EXPECT_EQ(open()->get(sample_key()).outcome, Outcome::hit);
  EXPECT_GE(compiled(), 2U);
  ::kill(holder, SIGKILL);
  EXPECT_FALSE(succeeded(holder));
  counted(17, "processes raced for one key");
}

TEST_F(OnceTest, SaysAfterASecondWhoHoldsIt) {
  const pid_t holder = want(counting(milliseconds(1500)));
  wait_for_compilations(1);
  Making making = counting();
  std::vector<std::string> said;
  making.notice = [&](const std::string& text) { said.push_back(text); };
  const auto made = make_once(*open(), sample_key(), making);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->by_another);
  EXPECT_EQ(said, std::vector{"waiting for process " + std::to_string(holder) + ", which compiles the same kernel"});
  EXPECT_TRUE(succeeded(holder));
}

TEST_F(OnceTest, WhereNothingCanBePublishedNobodyWaitsForAnother) {
  // A store that takes no entries although its directories can be written to: each process would compile in turn.
  const auto began = Clock::now();
  std::vector<pid_t> processes;
  for (int i = 0; i < 12; ++i) {
    processes.push_back(in_process([&] {
      const auto full = Store::open({.directory = root(), .cap = 1});
      const auto made = make_once(*full, sample_key(), counting(milliseconds(200)));
      return made.ok() && made->warning && made->warning->code == "cache-full";
    }));
  }
  for (const pid_t process : processes) EXPECT_TRUE(succeeded(process));
  EXPECT_LT(Clock::now() - began, milliseconds(12 * 200)) << "at most one after the other, then all at once";
  const auto disabled = Store::open({.directory = root(), .disabled = true});
  const auto made = make_once(*disabled, sample_key(), counting());
  ASSERT_TRUE(made.ok());
  EXPECT_FALSE(made->published);
  EXPECT_FALSE(made->warning.has_value());
}

TEST_F(OnceTest, AFailureIsTheCallersAndLeavesNoLock) {
  Making making;
  making.make = []() -> Result<Entry> { return user_error("no"); };
  const auto store = open();
  const auto made = make_once(*store, sample_key(), making);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message, "no");
  EXPECT_TRUE(make_once(*store, sample_key(), counting()).ok());
  EXPECT_EQ(store->get(sample_key()).outcome, Outcome::hit);
}

TEST_F(OnceTest, AnUnusableEntryIsMadeAnew) {
  const auto store = open();
  store->put(sample_key(), sample_entry("old"));
  Making making = counting();
  making.usable = [](const Entry& entry) { return entry == sample_entry(); };
  const auto made = make_once(*store, sample_key(), making);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->published);
  EXPECT_EQ(*store->get(sample_key()).entry, sample_entry());
}

TEST_F(OnceTest, ALockDirectoryOfOthersIsNotUsed) {
  fs::create_directory(base() / "weft");
  chmod((base() / "weft").c_str(), 0777);
  EXPECT_TRUE(make_once(*open(), sample_key(), counting()).ok());
  EXPECT_TRUE(fs::is_empty(base() / "weft"));
  fs::remove(base() / "weft");
  fs::create_directory(base() / "elsewhere");
  fs::create_directory_symlink(base() / "elsewhere", base() / "weft");
  EXPECT_TRUE(make_once(*open(), sample_key("b"), counting()).ok());
  EXPECT_TRUE(fs::is_empty(base() / "elsewhere"));
}

TEST_F(OnceTest, SweepingRemovesLocksOfTheDeadOnly) {
  const pid_t dead = want(counting(std::chrono::hours(1)));
  wait_for_compilations(1);
  const pid_t alive = want(counting(milliseconds(500)));
  ::kill(dead, SIGKILL);
  EXPECT_FALSE(succeeded(dead));
  wait_for_compilations(2);
  overwrite(base() / "weft" / "weft-left-behind", "1\n");
  overwrite(base() / "weft" / "not ours", "1\n");
  Locks().sweep();
  EXPECT_TRUE(fs::exists(lock_file()));
  EXPECT_FALSE(fs::exists(base() / "weft" / "weft-left-behind"));
  EXPECT_TRUE(fs::exists(base() / "weft" / "not ours"));
  EXPECT_TRUE(succeeded(alive));
}

TEST(Flights, OneOf16ThreadsWorks) {
  Flights<int> flights;
  std::atomic<int> worked{0}, joined{0}, waiting{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      ++waiting;
      const auto landed = flights.join("key", [&] {
        while (waiting < 16) std::this_thread::yield();
        std::this_thread::sleep_for(milliseconds(50));
        return ++worked;
      });
      EXPECT_EQ(*landed.value, 1);
      joined += landed.joined ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(worked, 1);
  EXPECT_EQ(joined, 15);
  EXPECT_EQ(*flights.join("key", [&] { return ++worked; }).value, 2) << "nothing is kept";
  EXPECT_EQ(*flights.join("other", [&] { return ++worked; }).value, 3);
}

}  // namespace
}  // namespace weft::cache
