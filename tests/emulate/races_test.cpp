/// What orders two accesses, one rule at a time.

#include "runtime/emulate/races.h"

#include <gtest/gtest.h>

namespace weft::emulate {
namespace {

constexpr bool kLoad = false, kStore = true;

/// A block of two warps whose threads do one thing after the other.
class RacesTest : public ::testing::Test {
 protected:
  bool races(int thread, bool write, std::int64_t offset = 0, std::int64_t size = 4) {
    const std::uint32_t sync = thread < 32 ? first_sync_ : second_sync_;
    return races_.access(offset, size, write, nullptr, {barrier_, sync, thread}).has_value();
  }
  void barrier() { ++barrier_; }
  void sync_first_warp() { ++first_sync_; }

 private:
  Races races_{64};
  std::uint32_t barrier_ = 1, first_sync_ = 0, second_sync_ = 0;
};

TEST_F(RacesTest, LoadsNeverRace) {
  EXPECT_FALSE(races(0, kLoad));
  EXPECT_FALSE(races(1, kLoad));
  EXPECT_FALSE(races(40, kLoad));
}

TEST_F(RacesTest, AThreadNeverRacesWithItself) {
  EXPECT_FALSE(races(3, kStore));
  EXPECT_FALSE(races(3, kLoad));
  EXPECT_FALSE(races(3, kStore));
}

TEST_F(RacesTest, StoreThenLoad) {
  EXPECT_FALSE(races(0, kStore));
  EXPECT_TRUE(races(1, kLoad));
}

TEST_F(RacesTest, LoadThenStore) {
  EXPECT_FALSE(races(0, kLoad));
  EXPECT_TRUE(races(1, kStore));
}

TEST_F(RacesTest, StoreThenStore) {
  EXPECT_FALSE(races(0, kStore));
  EXPECT_TRUE(races(33, kStore));
}

TEST_F(RacesTest, ABarrierOrdersAll) {
  EXPECT_FALSE(races(0, kStore));
  barrier();
  EXPECT_FALSE(races(40, kLoad));
  EXPECT_FALSE(races(1, kLoad));
  barrier();
  EXPECT_FALSE(races(1, kStore));
}

TEST_F(RacesTest, AWarpsOwnOrderIsItsOwn) {
  EXPECT_FALSE(races(0, kStore));
  sync_first_warp();
  EXPECT_FALSE(races(1, kLoad));
  EXPECT_TRUE(races(40, kLoad)) << "the other warp did not take part";
}

TEST_F(RacesTest, AReaderOfAnotherWarpIsNotForgotten) {
  EXPECT_FALSE(races(40, kLoad));
  EXPECT_FALSE(races(0, kLoad));
  sync_first_warp();
  EXPECT_FALSE(races(1, kLoad));
  EXPECT_TRUE(races(1, kStore)) << "thread 40 has read";
}

TEST_F(RacesTest, OneOfManyReadersOfAWarpRaces) {
  EXPECT_FALSE(races(0, kLoad));
  EXPECT_FALSE(races(1, kLoad));
  EXPECT_TRUE(races(1, kStore)) << "thread 0 has read";
}

TEST_F(RacesTest, ManyReadersOfAWarpAreOrderedByItsSync) {
  EXPECT_FALSE(races(0, kLoad));
  EXPECT_FALSE(races(1, kLoad));
  sync_first_warp();
  EXPECT_FALSE(races(1, kStore));
}

TEST_F(RacesTest, NeighboursInAWordDoNotRace) {
  EXPECT_FALSE(races(0, kStore, 0, 2));
  EXPECT_FALSE(races(1, kStore, 2, 2));
  EXPECT_FALSE(races(0, kLoad, 0, 2));
  barrier();
  EXPECT_FALSE(races(0, kStore, 0, 2));
  EXPECT_TRUE(races(40, kLoad, 0, 4));
}

TEST_F(RacesTest, WideAccessesMeetInAnyWord) {
  EXPECT_FALSE(races(0, kStore, 16, 16));
  EXPECT_FALSE(races(1, kLoad, 0, 16));
  EXPECT_FALSE(races(1, kLoad, 32, 16));
  EXPECT_TRUE(races(1, kLoad, 28, 4));
}

}  // namespace
}  // namespace weft::emulate
