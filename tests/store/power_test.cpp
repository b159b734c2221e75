#include "power.h"
#include "tests/cache/processes.h"
#include "tests/store/work.h"
#include "tracer.h"

/// R2: power lost at any write, with what was not synced dropped, cut short, zeroed or out of order.
namespace weft::store_test {
namespace {

class PowerTest : public TracedWorkTest {
 protected:
  /// All states that a put over an old entry can leave; how many of them, and how many show a torn entry.
  struct Seen {
    std::size_t states = 0, torn = 0, old = 0, made = 0, absent = 0;
  };
  Seen replay(bool syncs) {
    put_old();
    const std::string before = cache::contents(file());
    auto log = recorded(traced([&] {
      put_new();
      return 0;
    }));
    if (!syncs) std::erase_if(log, [](const Operation& operation) { return operation.kind == Operation::Kind::sync; });
    const std::string name = file().filename().string();
    Seen seen;
    for (std::size_t cut = 0; cut <= log.size(); ++cut) {
      each_state({log.begin(), log.begin() + static_cast<std::ptrdiff_t>(cut)}, {{name, before}},
                 [&](const std::map<std::string, std::string>& files) { judge(files, seen); });
    }
    return seen;
  }

 private:
  /// What the store makes of a shard with these files.
  void judge(const std::map<std::string, std::string>& files, Seen& seen) {
    ++seen.states;
    fs::remove_all(root());
    fs::create_directories(file().parent_path());
    for (const fs::path& place : {root(), format_root(), file().parent_path()}) ::chmod(place.c_str(), 0700);
    for (const auto& [name, bytes] : files) {
      cache::overwrite(file().parent_path() / name, bytes);
      ::chmod((file().parent_path() / name).c_str(), 0600);
    }
    const auto found = open()->get(key());
    if (found.outcome == Outcome::absent) {
      ++seen.absent;
    } else if (found.outcome == Outcome::hit) {
      ++(*found.entry == old_entry() ? seen.old : seen.made);
      EXPECT_TRUE(is_old_or_new(found));
    } else {
      ++seen.torn;
    }
  }
};

TEST_F(PowerTest, LeavesTheOldEntryOrTheNewOne) {
  const Seen seen = replay(true);
  EXPECT_EQ(seen.torn, 0U);
  EXPECT_EQ(seen.absent, 0U) << "a rename replaces: there is no moment without the entry";
  EXPECT_GT(seen.old, 10U);
  EXPECT_GT(seen.made, 1U);
  cache::counted(seen.states, "states after a loss of power");
}

// The control: a store that does not sync before it renames.
TEST_F(PowerTest, WithoutSyncsATornEntryIsSeenAndNotLoaded) {
  const Seen seen = replay(false);
  EXPECT_GT(seen.torn, 1U);
}

}  // namespace
}  // namespace weft::store_test
