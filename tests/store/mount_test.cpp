#include "kernels_cache/once.h"
#include "tests/cache/processes.h"
#include "tests/store/work.h"

#include <sched.h>
#include <sys/mount.h>

/// R3, S2: a disk of 1 MiB that is really full, and one that nothing can be executed from.
namespace weft::store_test {
namespace {

constexpr int kForbidden = 77;

class MountTest : public StoreWorkTest {
 protected:
  /// Runs `work` in a process that sees a small disk of its own as the store's directory; its status.
  int with_disk(unsigned long flags, const std::function<int()>& work) const {
    fs::create_directories(root());
    const pid_t child = ::fork();
    if (child == 0) {
      const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                           ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                           ::mount("weft", root().c_str(), "tmpfs", flags, "size=1m,mode=0700") == 0;
      ::_exit(mounted ? work() : kForbidden);
    }
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  static Entry large(int i) {
    Entry out = new_entry();
    out.binary = std::string(100'000, static_cast<char>('a' + i % 26));
    return out;
  }
};

TEST_F(MountTest, AFullDiskCostsTheEntryNotTheKernel) {
  const int status = with_disk(0, [&] {
    const auto store = open(1 << 30);
    int published = 0, refused = 0;
    for (int i = 0; i < 30; ++i) {
      cache::Making making;
      making.make = [i]() -> Result<Entry> { return large(i); };
      const auto made = cache::make_once(*store, other_key(i), making);
      if (!made.ok() || !(made->entry == large(i))) return 1;
      if (made->published != !made->warning) return 2;
      if (made->warning && made->warning->code != "cache-full") return 3;
      ++(made->published ? published : refused);
    }
    if (published < 5 || refused < 10) return 4;
    for (int i = 0; i < 30; ++i) {
      const auto found = store->get(other_key(i));
      if (found.outcome != (i < published ? Outcome::hit : Outcome::absent)) return 5;
    }
    if (leftovers() != 0) return 6;
    store->clear();
    return store->put(key(), large(0)).published ? 0 : 7;
  });
  if (status == kForbidden) GTEST_SKIP() << "nothing can be mounted here";
  EXPECT_EQ(status, 0);
}

// The control, and what a cap is for: one that is smaller than the disk keeps the store at work.
TEST_F(MountTest, ACapBelowTheDiskKeepsItGoing) {
  const int status = with_disk(0, [&] {
    const auto store = open(600'000);
    for (int i = 0; i < 30; ++i) {
      if (!store->put(other_key(i), large(i)).published) return 1;
      if (store->get(other_key(i)).outcome != Outcome::hit) return 2;
    }
    return 0;
  });
  if (status == kForbidden) GTEST_SKIP() << "nothing can be mounted here";
  EXPECT_EQ(status, 0);
}

TEST_F(MountTest, NothingNeedsToBeExecutable) {
  const int status = with_disk(MS_NOEXEC | MS_NOSUID | MS_NODEV, [&] {
    const fs::path program = root() / "program";
    fs::copy_file("/bin/true", program);
    ::chmod(program.c_str(), 0700);
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl(program.c_str(), "true", nullptr);
      ::_exit(9);
    }
    int ended = 0;
    ::waitpid(child, &ended, 0);
    if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 9) return 1;  // the control
    if (!open()->put(key(), new_entry()).published) return 2;
    return is_old_or_new(open()->get(key())) ? 0 : 3;
  });
  if (status == kForbidden) GTEST_SKIP() << "nothing can be mounted here";
  EXPECT_EQ(status, 0);
}

TEST_F(MountTest, AReadOnlyDiskServesAndWarns) {
  const int status = with_disk(0, [&] {
    if (!open()->put(key(), new_entry()).published) return 1;
    if (::mount("weft", root().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return 2;
    const auto store = open();
    if (!is_old_or_new(store->get(key()))) return 3;
    const auto made = cache::make_once(*store, other_key(), making());
    if (!made.ok() || made->published || !made->warning) return 4;
    return made->warning->code == "cache-read-only" ? 0 : 5;
  });
  if (status == kForbidden) GTEST_SKIP() << "nothing can be mounted here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace weft::store_test
