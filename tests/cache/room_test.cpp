#include "tests/cache/fixture.h"
#include "tests/cache/processes.h"

#include <fcntl.h>

#include <ctime>

/// The store keeps to its size, whoever writes and whatever the clock says.
namespace weft::cache {
namespace {

constexpr int kWriters = 6;
constexpr std::int64_t kYear = 365 * 24 * 3600;

class RoomTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    runtime_.emplace("XDG_RUNTIME_DIR", base().string());
  }

  static Key key(int i) { return sample_key(std::to_string(1000 + i)); }
  static std::uint64_t size_of_one() { return encode(key(0).text(), sample_entry("1000")).size(); }

  std::shared_ptr<Store> capped(std::uint64_t entries) const {
    return Store::open({.directory = root(), .cap = entries * size_of_one()});
  }
  void put(Store& store, int i) const { (void)store.put(key(i), sample_entry(std::to_string(1000 + i))); }

  void used_at(int i, std::int64_t time) const {
    const timespec times[2] = {{time, 0}, {time, 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, file(key(i)).c_str(), times, 0), 0);
  }

  /// Writers at work, and the most bytes that were there at any look.
  std::uint64_t storm(std::uint64_t cap) const {
    std::vector<pid_t> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
      writers.push_back(in_process([&] {
        const auto store = capped(cap);
        for (int i = 0; i < 60; ++i) put(*store, 100 * writer + i);
        return true;
      }));
    }
    std::uint64_t most = 0;
    const auto watcher = open();
    for (bool running = true; running;) {
      most = std::max(most, watcher->totals().bytes);
      running = ::waitpid(-1, nullptr, WNOHANG) >= 0;
    }
    return std::max(most, watcher->totals().bytes);
  }

 private:
  std::optional<Variable> runtime_;
};

TEST_F(RoomTest, AStormNeverExceedsTheCapByMoreThanAnEntryPerWriter) {
  EXPECT_LE(storm(40), (40 + kWriters) * size_of_one());
  EXPECT_GE(open()->totals().bytes, 20 * size_of_one()) << "nor is more swept than is needed";
  counted(kWriters, "processes raced for room");
}

// The control: a store without a cap that bites grows beyond that.
TEST_F(RoomTest, WithoutACapItGrows) { EXPECT_GT(storm(1'000'000), 300 * size_of_one()); }

TEST_F(RoomTest, AWrongSumIsMendedByCounting) {
  const fs::path usage = fs::path(root()) / ("kernels-" + std::to_string(kFormat)) / "usage";
  const auto store = capped(10);
  for (int i = 0; i < 10; ++i) put(*store, i);
  EXPECT_EQ(contents(usage), std::to_string(10 * size_of_one()) + "\n");
  for (const std::string& wrong : {std::string("garbage"), std::string(), std::string("99999999999999999999999\n"),
                                   std::string("18446744073709551615\n"), std::to_string(10 * size_of_one())}) {
    overwrite(usage, wrong);
    put(*store, 50);
    EXPECT_LE(store->totals().bytes, 10 * size_of_one()) << wrong;
    EXPECT_EQ(store->get(key(50)).outcome, Outcome::hit);
  }
  // One that is too small cannot be told; it does not stay.
  overwrite(usage, "0\n");
  for (int i = 100; i < 400; ++i) put(*store, i);
  EXPECT_LE(store->totals().bytes, 10 * size_of_one());
}

TEST_F(RoomTest, AnEntryLargerThanTheCapIsNotStoredAndTakesNothingAway) {
  const auto store = capped(4);
  put(*store, 1);
  const PutResult put_large = store->put(key(2), {.binary = std::string(10000, 'x')});
  EXPECT_FALSE(put_large.published);
  ASSERT_TRUE(put_large.warning.has_value());
  EXPECT_EQ(put_large.warning->code, "cache-full");
  EXPECT_EQ(store->get(key(1)).outcome, Outcome::hit);
}

TEST_F(RoomTest, AClockThatWasAheadDoesNotKeepOldEntriesForNewOnes) {
  const auto store = capped(10);
  for (int i = 0; i < 10; ++i) {
    put(*store, i);
    used_at(i, std::time(nullptr) + 10 * kYear);
  }
  for (int i = 10; i < 14; ++i) put(*store, i);
  for (int i = 10; i < 14; ++i) EXPECT_EQ(store->get(key(i)).outcome, Outcome::hit) << i;
}

TEST_F(RoomTest, AClockThatWasBehindCostsOldEntriesOnly) {
  const auto store = capped(10);
  for (int i = 0; i < 10; ++i) {
    put(*store, i);
    used_at(i, i < 5 ? 1 : std::time(nullptr));
  }
  put(*store, 10);
  for (int i = 5; i < 11; ++i) EXPECT_EQ(store->get(key(i)).outcome, Outcome::hit) << i;
  EXPECT_EQ(store->get(key(0)).outcome, Outcome::absent) << "the control: something was swept";
}

TEST_F(RoomTest, AUseMendsATimeFromTheFuture) {
  const auto store = open();
  put(*store, 1);
  used_at(1, std::time(nullptr) + kYear);
  EXPECT_EQ(store->get(key(1)).outcome, Outcome::hit);
  EXPECT_LE(store->list().front().used, std::time(nullptr));
}

TEST_F(RoomTest, LeftoversFromAnyTimeAreSweptButNotWhatIsBeingWritten) {
  const auto store = capped(10);
  put(*store, 1);
  const std::int64_t now = std::time(nullptr);
  const std::int64_t times[] = {1, now - kYear, now, now + kYear};
  for (int i = 0; i < 4; ++i) {
    const fs::path path = shard(key(1)) / ("tmp-" + std::to_string(i));
    overwrite(path, "left");
    const timespec at[2] = {{times[i], 0}, {times[i], 0}};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), at, 0), 0);
  }
  EXPECT_EQ(store->prune(1 << 20).files, 3U);
  EXPECT_TRUE(fs::exists(shard(key(1)) / "tmp-2"));
}

TEST_F(RoomTest, AStoppedSweeperStopsNobodyElse) {
  const auto store = open();
  put(*store, 0);
  Locks locks;
  const Lock held = locks.acquire({.name = store->lock_name("room"), .at_most = std::chrono::milliseconds(0)});
  ASSERT_TRUE(static_cast<bool>(held));
  const pid_t writer = in_process([&] {
    const auto began = std::chrono::steady_clock::now();
    put(*open(), 1);
    return std::chrono::steady_clock::now() - began < std::chrono::seconds(1);
  });
  EXPECT_TRUE(succeeded(writer));
  EXPECT_EQ(store->get(key(1)).outcome, Outcome::hit);
}

}  // namespace
}  // namespace weft::cache
