#include "kernels_cache/once.h"
#include "tests/cache/processes.h"
#include "tests/store/work.h"
#include "tracer.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

/// R3, R9: whatever a system call refuses, the caller has the kernel, and at most one warning with a code.
namespace weft::store_test {
namespace {

constexpr std::array kErrors = {EIO,    ENOSPC, EDQUOT, EROFS,  EACCES, EPERM,  EMFILE,
                                ENFILE, ENOMEM, ESTALE, ENOENT, ELOOP,  ENOLCK, ENOTSUP};

/// What a process that wanted a kernel says of it, as its status.
enum Said : int { kPublished, kFromStore, kAtSecondLook, kNotPublished, kWrong, kSaid };

/// Refuses the n-th of the calls of a kind, or it and all later ones with its number.
class Refusal {
 public:
  Refusal(std::function<bool(const Call&)> kind, std::size_t n, int error, bool lasting)
      : kind_(std::move(kind)), left_(n), error_(error), lasting_(lasting) {}

  int operator()(const Call& call) {
    if (!refused_.empty()) return lasting_ && call.number == number_ ? error_ : 0;
    if (!kind_(call) || left_-- > 0) return 0;
    number_ = call.number;
    refused_ = "system call " + std::to_string(call.number) + " " + call.path;
    return error_;
  }
  /// Which it was; empty where there were not so many.
  const std::string& refused() const { return refused_; }

 private:
  std::function<bool(const Call&)> kind_;
  std::size_t left_;
  int error_;
  bool lasting_;
  std::uint64_t number_ = 0;
  std::string refused_;
};

class RefusalTest : public TracedWorkTest {
 protected:
  std::function<int()> wanting(std::uint64_t cap = 1 << 20) const {
    return [this, cap] {
      const auto store = open(cap);
      if (const auto found = store->get(key()); found.entry) return is_old_or_new(found) ? kFromStore : kWrong;
      const auto made = cache::make_once(*store, key(), making());
      if (!made.ok() || !(made->entry == (made->by_another ? old_entry() : new_entry()))) return kWrong;
      if (made->by_another) return kAtSecondLook;
      if (made->published) return made->warning ? kWrong : kPublished;
      return made->warning && made->warning->code.starts_with("cache-") && !made->warning->message.empty()
                 ? kNotPublished
                 : kWrong;
    };
  }

  /// Afterwards, without refusals, all is as if nothing had been.
  void expect_mended() {
    const auto store = open();
    const auto found = store->get(key());
    ASSERT_TRUE(found.outcome == Outcome::absent || is_old_or_new(found)) << found.detail;
    ASSERT_TRUE(cache::make_once(*store, key(), making()).ok());
    ASSERT_EQ(store->get(key()).outcome, Outcome::hit);
  }

  /// Refuses each call of the work in turn with each error: once, or from there on for all of its kind.
  void refuse_everywhere(const std::function<void()>& prepare, const std::function<int()>& work, bool lasting) {
    renew();
    prepare();
    const std::vector<Call> all = traced(work).calls;
    const auto files = static_cast<std::size_t>(std::count_if(all.begin(), all.end(), is_about_files));
    for (std::size_t at = 0; at < files; ++at) {
      for (const int error : kErrors) {
        renew();
        prepare();
        Refusal refusal(is_about_files, at, error, lasting);
        const auto ended = traced(work, [&](const Call& call, std::size_t) { return refusal(call); });
        SCOPED_TRACE("call " + std::to_string(at) + ", " + refusal.refused() + ": " + std::strerror(error));
        ASSERT_FALSE(ended.killed);
        ASSERT_LT(ended.status, kWrong);
        said_[static_cast<std::size_t>(ended.status)]++;
        ASSERT_NO_FATAL_FAILURE(expect_mended());
        ++refused_;
      }
    }
    cache::counted(refused_, "system calls refused");
    refused_ = 0;
  }

  std::array<std::size_t, kSaid> said_{};
  std::size_t refused_ = 0;
};

TEST_F(RefusalTest, OnceWhileAnEntryIsMade) {
  refuse_everywhere([] {}, wanting(), false);
  EXPECT_GT(said_[kNotPublished], 50U) << "the control: refusals were felt";
  EXPECT_GT(said_[kPublished], 50U) << "nor does each of them cost the entry";
}

TEST_F(RefusalTest, FromThereOnWhileAnEntryIsMade) {
  refuse_everywhere([] {}, wanting(), true);
  EXPECT_GT(said_[kNotPublished], 50U);
}

TEST_F(RefusalTest, OnceWhileAnEntryIsRead) {
  refuse_everywhere([&] { put_old(); }, wanting(), false);
  EXPECT_GT(said_[kAtSecondLook], 10U) << "the control: refusals were felt";
  EXPECT_GT(said_[kFromStore], 10U);
}

TEST_F(RefusalTest, WhileABadEntryIsReplaced) {
  refuse_everywhere([&] { put_damaged(); }, wanting(), false);
  EXPECT_GT(said_[kPublished], 10U);
}

TEST_F(RefusalTest, WhileOthersAreSwept) {
  refuse_everywhere(
      [&] {
        for (int i = 0; i < 4; ++i) put_other(i);
      },
      wanting(5 * entry_size()), false);
}

TEST_F(RefusalTest, InterruptedCallsAreMadeAgain) {
  // These, a signal can interrupt; what the C library does with close() is its own business.
  const auto interruptible = [](const Call& call) {
    static const std::array kNumbers = {SYS_openat,   SYS_read,  SYS_write, SYS_pread64,
                                        SYS_pwrite64, SYS_fsync, SYS_flock, SYS_ftruncate};
    return std::find(kNumbers.begin(), kNumbers.end(), static_cast<long>(call.number)) != kNumbers.end();
  };
  std::size_t interrupted = 0;
  for (bool felt = true; felt; ++interrupted) {
    renew();
    Refusal refusal(interruptible, interrupted, EINTR, false);
    const auto ended = traced(wanting(), [&](const Call& call, std::size_t) { return refusal(call); });
    felt = !refusal.refused().empty();
    EXPECT_EQ(ended.status, kPublished) << refusal.refused();
  }
  EXPECT_GT(interrupted, 10U);
  cache::counted(interrupted, "system calls interrupted");
}

/// The control for all of these: a writer that does not look at what its calls come to.
TEST_F(RefusalTest, AWriterThatIgnoresRefusalsIsFoundOut) {
  put_old();
  bool written = false;
  (void)traced(
      [&] {
        write_in_place();
        return 0;
      },
      [&](const Call& call, std::size_t) {
        return call.number == SYS_write && !std::exchange(written, true) ? ENOSPC : 0;
      });
  EXPECT_EQ(open()->get(key()).outcome, Outcome::corrupt);
}

/// A network file system that shows a new file late, or says that it was replaced.
class NetworkTest : public TracedWorkTest {
 protected:
  bool opens_entry(const Call& call) const {
    return call.number == SYS_openat && call.path == key().digest().substr(2);
  }
  /// The outcome of two gets of a stored entry.
  Ended two_gets(const Decide& decide) const {
    return traced(
        [&] {
          const auto store = open();
          const auto first = store->get(key()), second = store->get(key());
          return 16 * static_cast<int>(first.outcome) + static_cast<int>(second.outcome);
        },
        decide);
  }
  static int both(Outcome first, Outcome second) { return 16 * static_cast<int>(first) + static_cast<int>(second); }
};

TEST_F(NetworkTest, AFileThatIsHiddenForAWhileIsFoundLater) {
  put_old();
  std::size_t opened = 0;
  const auto ended =
      two_gets([&](const Call& call, std::size_t) { return opens_entry(call) && opened++ == 0 ? ENOENT : 0; });
  EXPECT_EQ(ended.status, both(Outcome::absent, Outcome::hit)) << "that it was absent is not remembered";
}

TEST_F(NetworkTest, AStaleHandleIsOpenedAnew) {
  put_old();
  // Wherever it happens: at the root, the shard or the entry.
  const std::size_t calls = two_gets({}).calls.size();
  std::size_t mended = 0;
  for (std::size_t at = 0; at < calls; ++at) {
    const auto ended = two_gets([&](const Call& call, std::size_t index) {
      return index == at && is_about_files(call) && call.number != SYS_close ? ESTALE : 0;
    });
    EXPECT_EQ(ended.status, both(Outcome::hit, Outcome::hit)) << at;
    mended += ended.calls[at].result == -ESTALE ? 1U : 0U;
  }
  EXPECT_GT(mended, 6U) << "the control";
}

TEST_F(NetworkTest, ALastingOneIsAMissAfterAFewTries) {
  put_old();
  std::size_t opened = 0;
  const auto ended = two_gets([&](const Call& call, std::size_t) {
    if (!opens_entry(call)) return 0;
    ++opened;
    return ESTALE;
  });
  EXPECT_EQ(ended.status, both(Outcome::unreadable, Outcome::unreadable));
  EXPECT_LE(opened, 2 * 3U);
  EXPECT_EQ(open()->get(key()).outcome, Outcome::hit) << "nothing was moved aside";
}

TEST_F(NetworkTest, ARenameThatSaysItFailedThoughItDidNot) {
  std::size_t renamed = 0;
  const auto ended = traced(
      [&] {
        const auto made = cache::make_once(*open(), key(), making());
        return made.ok() && made->entry == new_entry() && made->published ? 0 : 1;
      },
      [&](const Call& call, std::size_t) {
        return (call.number == SYS_renameat || call.number == SYS_renameat2) && renamed++ == 0 ? ENOENT : 0;
      });
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(open()->get(key()).outcome, Outcome::hit);
}

TEST_F(NetworkTest, WithoutLocksEverybodyIsServed) {
  for (const int error : {ENOLCK, ENOTSUP, EIO}) {
    renew();
    const auto ended = traced(
        [&] {
          const auto made = cache::make_once(*open(), key(), making());
          return made.ok() && made->published ? 0 : 1;
        },
        [&](const Call& call, std::size_t) { return call.number == SYS_flock ? error : 0; });
    EXPECT_EQ(ended.status, 0);
  }
}

}  // namespace
}  // namespace weft::store_test
