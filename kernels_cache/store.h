#pragma once

#include "compiler/base/fork_safe.h"
#include "kernels_cache/directory.h"
#include "kernels_cache/entry.h"
#include "kernels_cache/key.h"
#include "kernels_cache/lock.h"
#include "kernels_cache/place.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace weft::cache {

inline constexpr std::uint64_t kUsualCap = 2ULL << 30;

struct Options {
  std::string directory = {};     ///< the explicit option; empty: choose_place decides
  bool disabled = false;          ///< --no-cache
  bool read_only = false;         ///< somebody else's: nothing in it is changed, bad entries included
  std::uint64_t cap = kUsualCap;  ///< bytes to keep; the least recently used go first
};

enum class Outcome {
  hit,
  absent,        ///< never stored, or swept
  disabled,      ///< there is no store: kernels stay in memory
  unsafe,        ///< others could have written it
  corrupt,       ///< not what put() wrote
  other_key,     ///< whole, but for another key
  other_format,  ///< another version's
  unreadable,    ///< the system refuses to read it
};
inline constexpr std::size_t kOutcomes = 8;
const char* name_of(Outcome outcome);

struct Lookup {
  Outcome outcome = Outcome::absent;
  std::optional<Entry> entry;  ///< of a hit
  std::string detail;          ///< of a miss other than `absent`: what is wrong, in a sentence
};

struct Warning {
  std::string code;  ///< stable: `cache-unsafe`, `cache-full`, `cache-denied`, `cache-read-only`, `cache-io`
  std::string message;
};

struct PutResult {
  bool published = false;
  std::optional<Warning> warning;  ///< why not; none where there is no store to publish in
};

/// Whether an entry whose digests are right makes sense to who asked for it: an internal error says why not, and it is
/// a miss like any other bad file.
using Judge = std::function<Status(const Entry&)>;

/// What was done with kernels; nothing else is counted.
struct Stats {
  std::array<std::uint64_t, kOutcomes> lookups{};  ///< by Outcome
  std::uint64_t puts = 0;
  std::uint64_t failed_puts = 0;
  std::uint64_t count(Outcome outcome) const { return lookups[static_cast<std::size_t>(outcome)]; }
  std::uint64_t hits() const { return count(Outcome::hit); }
  std::uint64_t misses() const;
};

/// One entry as `weft cache ls` shows it.
struct Listing {
  std::string digest;
  std::uint64_t bytes = 0;
  std::int64_t used = 0;  ///< seconds since 1970; exact to an hour
};

struct Removed {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t failed = 0;  ///< files that should have gone and would not
  int failure = 0;           ///< the errno of one of them
};

struct Verified {
  std::uint64_t good = 0;  ///< kernels
  struct Bad {
    std::string digest;
    std::string reason;
  };
  std::vector<Bad> bad;
};

/// Compiled kernels on disk. Opening it cannot fail and reads no entries; a store that cannot be used is one
/// that misses. Thread-safe, safe in forked processes, and safe among any number of processes without locks: an
/// entry appears whole by one rename, and the loser of a race keeps its own bytes.
///
/// On disk: ROOT/kernels-FORMAT/xx/, 256 shards by the first two digits of the key's digest; in them
/// `REST` (a kernel), `REST.note`, `REST.measurement`, any with `.bad` (moved aside) and `tmp-...` (being written, or
/// left by a killed process). ROOT/kernels-FORMAT/usage is the sum of their sizes, at least, as far as is known: a
/// guess that saves counting.
///
/// Writers take turns (a lock that is not waited for long) to add their entry to that sum; whoever would exceed the
/// cap sweeps first. So the files exceed the cap by no more than one entry per writer, and by what writers
/// without a common lock added in 64 puts.
class Store {
 public:
  static std::shared_ptr<Store> open(const Options& options = {});

  /// Never an error: any trouble is a miss. A bad file is moved aside, so that the next put() mends it; after a
  /// refusal of the system the file stays.
  Lookup get(const Key& key, const Judge& judge = {});

  /// get() that no counter sees: a second look at what was just absent.
  Lookup look_again(const Key& key, const Judge& judge = {});

  /// Publishes, replacing what is there. The caller has the entry whatever comes of it.
  PutResult put(const Key& key, const Entry& entry);

  /// Whether put() could succeed, as far as that can be told; makes the store's directory.
  bool can_publish();

  /// For locks about the entry: the same for all processes of this machine that share the store.
  std::string lock_name(const std::string& digest);
  Locks& locks() { return locks_; }

  Stats stats() const;

  /// Where the store lies (it may not exist yet); empty: kernels stay in memory, and reason() says why.
  std::string path() const;
  std::string reason() const;
  const Place& place() const { return place_; }

  // Upkeep, for `weft cache`. Each works on what it can read and passes over the rest, other formats included.

  /// Kernels, the least recently used first.
  std::vector<Listing> list();

  struct Totals {
    std::uint64_t entries = 0;  ///< kernels
    std::uint64_t bytes = 0;    ///< of all files of the store, all else and leftovers included
  };
  Totals totals();

  /// One kernel by its digest. User error where it is absent, internal error where it is bad.
  Result<Decoded> read(const std::string& digest);

  /// Reads all entries, of each kind; bad ones are moved aside.
  Verified verify();

  Removed clear();

  /// Deletes the least recently used until `cap` bytes are left, and what killed processes left behind. What was
  /// used in the future, by a clock that was wrong, counts as not used.
  Removed prune(std::uint64_t cap);

  /// What of `key` differs from the stored kernel nearest to it; empty in a store without kernels.
  struct Nearest {
    std::string digest;
    std::vector<Difference> differences;
  };
  Nearest nearest(const Key& key);

  /// The same in words.
  std::string explain_miss(const Key& key);

 private:
  explicit Store(const Options& options);

  struct Found {
    Outcome outcome = Outcome::absent;
    std::string detail;
    int failure = 0;  ///< errno, where the system refused
    Decoded decoded;
  };
  using Root = std::shared_ptr<const Descriptor>;

  /// The directory of this format, opened once. Null where there is none, with the reason.
  Root root(bool create, Found& why);
  void forget(const Root& root);
  void refuse(Outcome outcome, std::string reason);
  bool open_checked(const Descriptor& at, const std::string& name, Descriptor& out, Found& why) const;
  /// What is looked for: the text of its key, and what else it must be. No text: any entry.
  struct Wanted {
    const std::string* key_text = nullptr;
    const Judge* judge = nullptr;
  };
  Found find(const std::string& name, const Wanted& wanted);
  Found find_once(const std::string& name, const Wanted& wanted);
  Found find_in(const Descriptor& shard, const std::string& name, const Wanted& wanted);
  bool publish(const std::string& name, const std::string& bytes, Found& why);
  bool publish_in(const Descriptor& root, const std::string& name, const std::string& bytes, Found& why);
  bool make_room(const Descriptor& root, std::uint64_t bytes, Found& why);
  Lock room_lock();
  std::uint64_t sweep(std::uint64_t cap, std::uint64_t goal, Removed& out);
  Warning warning(const Found& why) const;
  template <typename Visit>
  void each_file(Visit visit);

  Options options_;
  Place place_;
  Locks locks_;
  mutable ForkSafe<> mutex_;  ///< of the next three
  std::string reason_;
  Root root_;
  std::optional<Outcome> refusal_;  ///< disabled or unsafe: nothing will be tried
  std::array<std::atomic<std::uint64_t>, kOutcomes> lookups_{};
  std::atomic<std::uint64_t> puts_{0};
  std::atomic<std::uint64_t> failed_puts_{0};
};

}  // namespace weft::cache
