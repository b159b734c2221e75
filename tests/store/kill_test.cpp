#include "kernels_cache/once.h"
#include "tests/cache/processes.h"
#include "tests/store/work.h"
#include "tracer.h"

#include <fcntl.h>

#include <chrono>

/// R1: a process killed in front of any of its system calls leaves a store that opens, gives nothing torn, lets
/// nobody wait, and is swept.
namespace weft::store_test {
namespace {

using Clock = std::chrono::steady_clock;

class KillTest : public TracedWorkTest {
 protected:
  /// What is left after the death of one who did `work` in a store that `prepare` made.
  void expect_sound(const std::string& circumstances) {
    SCOPED_TRACE(circumstances);
    const auto store = open();
    const auto found = store->get(key());
    const bool still_damaged = damaged_ && found.outcome == Outcome::corrupt;
    ASSERT_TRUE(found.outcome == Outcome::absent || is_old_or_new(found) || still_damaged) << found.detail;
    const auto bystander = store->get(other_key());
    ASSERT_TRUE(bystander.outcome == Outcome::absent || bystander.outcome == Outcome::hit) << bystander.detail;
    const auto began = Clock::now();
    const auto made = cache::make_once(*store, key(), making());
    ASSERT_TRUE(made.ok() && (made->by_another || made->published));
    ASSERT_LT(Clock::now() - began, std::chrono::seconds(1)) << "nobody waits for the dead";
    had_leftovers_ = had_leftovers_ || leftovers() > 0;
    age_everything();
    store->prune(1 << 20);
    ASSERT_EQ(leftovers(), 0U);
    ASSERT_EQ(store->get(key()).outcome, Outcome::hit);
  }

  /// Kills `work` in front of its first call, its second, and so on.
  void kill_everywhere(const std::string& name, const std::function<void()>& prepare,
                       const std::function<void()>& work) {
    std::size_t kills = 0;
    for (bool killed = true; killed; ++kills) {
      renew();
      prepare();
      const auto ended = traced(
          [&] {
            work();
            return 0;
          },
          [&](const Call&, std::size_t index) { return index == kills ? kKill : 0; });
      killed = ended.killed;
      ASSERT_NO_FATAL_FAILURE(expect_sound(name + ", killed before call " + std::to_string(kills)));
    }
    EXPECT_GT(kills, 5U) << "the control: there was something to kill";
    cache::counted(kills - 1, "system calls killed at");
  }

  bool damaged_ = false;  ///< before any process was killed
  bool had_leftovers_ = false;
};

TEST_F(KillTest, Get) {
  kill_everywhere(
      "get", [&] { put_old(); }, [&] { open()->get(key()); });
}

TEST_F(KillTest, GetOfADamagedEntry) {
  damaged_ = true;
  kill_everywhere(
      "get", [&] { put_damaged(); }, [&] { open()->get(key()); });
}

TEST_F(KillTest, Put) {
  kill_everywhere(
      "put", [] {}, [&] { put_new(); });
  EXPECT_TRUE(had_leftovers_) << "the control: half a file is seen";
}

TEST_F(KillTest, PutThatReplaces) {
  kill_everywhere(
      "put", [&] { put_old(); }, [&] { put_new(); });
}

TEST_F(KillTest, PutThatSweeps) {
  kill_everywhere(
      "put",
      [&] {
        for (int i = 0; i < 4; ++i) put_other(i);
      },
      [&] { open(5 * entry_size())->put(key(), new_entry()); });
}

TEST_F(KillTest, Sweep) {
  kill_everywhere(
      "prune",
      [&] {
        put_old();
        for (int i = 0; i < 3; ++i) put_other(i);
      },
      [&] { open()->prune(2 * entry_size()); });
}

TEST_F(KillTest, Clear) {
  kill_everywhere(
      "clear",
      [&] {
        put_old();
        put_other(0);
      },
      [&] { open()->clear(); });
}

TEST_F(KillTest, Verify) {
  damaged_ = true;
  kill_everywhere(
      "verify", [&] { put_damaged(); }, [&] { open()->verify(); });
}

TEST_F(KillTest, MakingOnce) {
  kill_everywhere(
      "make_once", [] {}, [&] { (void)cache::make_once(*open(), key(), making()); });
}

/// The control: a store that writes in place is found out.
TEST_F(KillTest, AWriterInPlaceIsFoundOut) {
  std::size_t torn = 0, kills = 0;
  for (bool killed = true; killed; ++kills) {
    renew();
    put_old();
    killed = traced(
                 [&] {
                   write_in_place();
                   return 0;
                 },
                 [&](const Call&, std::size_t index) { return index == kills ? kKill : 0; })
                 .killed;
    const auto found = open()->get(key());
    torn += found.outcome == Outcome::absent || is_old_or_new(found) ? 0U : 1U;
  }
  EXPECT_GT(torn, 0U);
}

}  // namespace
}  // namespace weft::store_test
