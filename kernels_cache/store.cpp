#include "kernels_cache/store.h"

#include "kernels_cache/files.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <numeric>

namespace weft::cache {
namespace {

constexpr int kTries = 3;
constexpr std::int64_t kTouchAfter = 3600;  // seconds; a write for each hit would cost more than it tells

std::string format_directory() { return fmt::format("kernels-{}", kFormat); }

/// No two writers, whatever machine they run on, share one.
std::string temporary_name() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
    static std::atomic<std::uint64_t> counter{0};
    random = static_cast<std::uint64_t>(::getpid()) << 32 | counter.fetch_add(1);
  }
  return fmt::format("tmp-{:016x}", random);
}

/// For the order of use. Failing costs an early recompile at worst.
void touch(const Descriptor& file, const struct stat& info) {
  const std::int64_t age = std::time(nullptr) - info.st_mtim.tv_sec;
  if (age > kTouchAfter || age < 0) (void)::futimens(file.get(), nullptr);
}

/// One bad file is kept for a key. Where a directory lies in the way, or is what must go, another name is found.
void move_aside(const Descriptor& shard, const std::string& name) {
  if (rename_in(shard, name, name + ".bad") != 0) (void)rename_in(shard, name, name + ".bad-" + temporary_name());
}

const char* code_of(int failure) {
  switch (failure) {
    case EACCES:
    case EPERM:
      return "cache-denied";
    case EROFS:
      return "cache-read-only";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "cache-full";
    default:
      return "cache-io";
  }
}

}  // namespace

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::hit:
      return "hit";
    case Outcome::absent:
      return "absent";
    case Outcome::disabled:
      return "disabled";
    case Outcome::unsafe:
      return "unsafe";
    case Outcome::corrupt:
      return "corrupt";
    case Outcome::other_key:
      return "other key";
    case Outcome::other_format:
      return "other format";
    case Outcome::unreadable:
      return "unreadable";
  }
  return "";
}

std::uint64_t Stats::misses() const {
  return std::accumulate(lookups.begin(), lookups.end(), std::uint64_t{0}) - hits();
}

std::shared_ptr<Store> Store::open(const Options& options) { return std::shared_ptr<Store>(new Store(options)); }

Store::Store(const Options& options) : options_(options) {
  if (options.disabled) {
    refuse(Outcome::disabled, "the store is switched off");
    return;
  }
  place_ = choose_place(options.directory);
  if (place_.directory.empty()) {
    refuse(Outcome::disabled, place_.reason);
    return;
  }
  Found ignored;
  (void)root(false, ignored);
}

void Store::refuse(Outcome outcome, std::string reason) {
  refusal_ = outcome;
  reason_ = std::move(reason);
}

std::string Store::path() const {
  const std::lock_guard lock(mutex_);
  return refusal_ ? std::string() : place_.directory;
}

std::string Store::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

Store::Root Store::root(bool create, Found& why) {
  const std::lock_guard lock(mutex_);
  if (root_ != nullptr) return root_;
  if (refusal_) {
    why = {.outcome = *refusal_, .detail = reason_, .failure = 0, .decoded = {}};
    return nullptr;
  }
  Descriptor place;
  struct stat info {};
  why.failure = create ? make_path(place_.directory) : 0;
  if (why.failure == 0) why.failure = open_root(place_.directory, place, info);
  if (why.failure != 0) {
    why.outcome = why.failure == ENOENT ? Outcome::absent : Outcome::unreadable;
    why.detail = fmt::format("{}: {}", place_.directory, std::strerror(why.failure));
    return nullptr;
  }
  if (const std::string unsafe = unsafe_because(info); !unsafe.empty()) {
    refuse(Outcome::unsafe,
           fmt::format("{} is not used as the kernel store, kernels stay in memory: {}", place_.directory, unsafe));
    why.outcome = Outcome::unsafe;
    why.detail = reason_;
    return nullptr;
  }
  if (create) why.failure = make_directory(place, format_directory());
  Descriptor opened;
  if (why.failure == 0 && open_checked(place, format_directory(), opened, why)) {
    root_ = std::make_shared<const Descriptor>(std::move(opened));
  }
  return root_;
}

/// Someone removed the directory under us: the next put() makes it anew.
void Store::forget(const Root& root) {
  const std::lock_guard lock(mutex_);
  if (root_ == root) root_ = nullptr;
}

/// A directory inside the store; on failure `why` says what is wrong.
bool Store::open_checked(const Descriptor& at, const std::string& name, Descriptor& out, Found& why) const {
  struct stat info {};
  Descriptor opened;
  why.failure = open_directory(at, name, opened, info);
  if (why.failure != 0) {
    const bool not_ours = why.failure == ELOOP || why.failure == ENOTDIR;
    why.outcome = why.failure == ENOENT ? Outcome::absent : not_ours ? Outcome::unsafe : Outcome::unreadable;
    why.detail = fmt::format("{} in {} is not used: {}", name, place_.directory,
                             not_ours ? "it is no directory" : std::strerror(why.failure));
    return false;
  }
  if (const std::string unsafe = unsafe_because(info); !unsafe.empty()) {
    why.outcome = Outcome::unsafe;
    why.detail = fmt::format("{} in {} is not used: {}", name, place_.directory, unsafe);
    return false;
  }
  out = std::move(opened);
  return true;
}

/// A network file system says that a file or directory was replaced under us: what is opened anew is the new one.
Store::Found Store::find(const std::string& name, const Wanted& wanted) {
  Found out = find_once(name, wanted);
  for (int tries = 1; out.failure == ESTALE && tries < kTries; ++tries) out = find_once(name, wanted);
  return out;
}

Store::Found Store::find_once(const std::string& name, const Wanted& wanted) {
  Found out;
  const Root at = root(false, out);
  if (at == nullptr) return out;
  Descriptor shard;
  if (open_checked(*at, name.substr(0, kShardDigits), shard, out)) {
    out = find_in(shard, name.substr(kShardDigits), wanted);
  }
  if (out.failure == ESTALE) forget(at);
  return out;
}

Store::Found Store::find_in(const Descriptor& shard, const std::string& name, const Wanted& wanted) {
  const std::string* const key_text = wanted.key_text;
  Found out;
  Descriptor file;
  struct stat info {};
  int failure = open_file(shard, name, file, info);
  if (failure == ENOENT) return out;
  const auto miss = [&](Outcome outcome, std::string detail) {
    // The system's refusals pass; what is wrong with the file itself does not.
    const bool to_stay = outcome == Outcome::unreadable || outcome == Outcome::other_format || options_.read_only;
    if (!to_stay) move_aside(shard, name);
    out.outcome = outcome;
    out.failure = outcome == Outcome::unreadable ? failure : 0;
    out.detail = fmt::format("the entry {} is not used: {}", name, detail);
    return out;
  };
  if (failure == ELOOP || failure == ENXIO) return miss(Outcome::unsafe, "it is a link or no file");
  if (failure != 0) return miss(Outcome::unreadable, std::strerror(failure));
  if (!S_ISREG(info.st_mode)) return miss(Outcome::unsafe, "it is no file");
  if (std::string unsafe = unsafe_because(info); !unsafe.empty()) return miss(Outcome::unsafe, std::move(unsafe));
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > kLargestEntry) return miss(Outcome::corrupt, fmt::format("it has {} bytes", size));
  std::string bytes;
  failure = read_whole(file, size, bytes);
  if (failure != 0) return miss(Outcome::unreadable, std::strerror(failure));
  const auto format = format_of(bytes);
  auto decoded = decode(bytes, key_text == nullptr ? Check::file_and_sections : Check::file);
  if (!decoded.ok()) {
    const bool foreign = format && *format != kFormat;
    return miss(foreign ? Outcome::other_format : Outcome::corrupt, decoded.error().message);
  }
  if (key_text != nullptr && decoded->key_text != *key_text) return miss(Outcome::other_key, "it is for another key");
  if (wanted.judge != nullptr && *wanted.judge) {
    const Status sense = (*wanted.judge)(decoded->entry);
    if (!sense && sense.error().kind == ErrorKind::internal) return miss(Outcome::corrupt, sense.error().message);
  }
  if (key_text != nullptr && !options_.read_only) touch(file, info);  // a look at all entries is no use of them
  out.outcome = Outcome::hit;
  out.decoded = std::move(*decoded);
  return out;
}

Lookup Store::get(const Key& key, const Judge& judge) {
  Lookup out = look_again(key, judge);
  lookups_[static_cast<std::size_t>(out.outcome)].fetch_add(1, std::memory_order_relaxed);
  return out;
}

Lookup Store::look_again(const Key& key, const Judge& judge) {
  Found found = find(key.entry_name(), {.key_text = &key.text(), .judge = &judge});
  Lookup out{.outcome = found.outcome, .entry = {}, .detail = {}};
  if (found.outcome == Outcome::hit) {
    out.entry = std::move(found.decoded.entry);
  } else if (found.outcome != Outcome::absent) {
    out.detail = std::move(found.detail);
  }
  return out;
}

bool Store::publish(const std::string& name, const std::string& bytes, Found& why) {
  for (int tries = 1;; ++tries) {
    const Root at = root(true, why);
    if (at == nullptr) return false;
    if (publish_in(*at, name, bytes, why)) return true;
    // The directory, or the file that was being written, was removed meanwhile.
    const bool removed = why.failure == ENOENT || why.failure == ESTALE;
    if (!removed || tries == kTries) return false;
    forget(at);
    why = {};
  }
}

bool Store::publish_in(const Descriptor& at, const std::string& name, const std::string& bytes, Found& why) {
  if (!make_room(at, bytes.size(), why)) return false;
  const std::string shard_name = name.substr(0, kShardDigits);
  why.failure = make_directory(at, shard_name);
  Descriptor shard;
  if (why.failure != 0 || !open_checked(at, shard_name, shard, why)) return false;
  const std::string temporary = temporary_name();
  why.failure = write_new(shard, temporary, bytes);
  if (why.failure != 0) return false;
  why.failure = rename_in(shard, temporary, name.substr(kShardDigits));
  if (why.failure != 0) {
    (void)remove_in(shard, temporary);
    return false;
  }
  // Whole and visible already; a power cut may still lose it, which is a miss.
  (void)sync(shard);
  return true;
}

PutResult Store::put(const Key& key, const Entry& entry) {
  Found why;
  const bool counted = key.kind() == EntryKind::kernel;
  const std::string digest = key.digest();
  if (options_.read_only || !publish(key.entry_name(), encode(key.text(), entry), why)) {
    if (options_.read_only || why.outcome == Outcome::disabled) return {};
    if (counted) failed_puts_.fetch_add(1, std::memory_order_relaxed);
    return {.published = false, .warning = warning(why)};
  }
  if (counted) puts_.fetch_add(1, std::memory_order_relaxed);
  // One put of 64 counts anew and sweeps, whichever process makes it: what was guessed wrong does not stay.
  for (const char* ending : {"00", "40", "80", "c0"}) {
    if (digest.ends_with(ending)) (void)prune(options_.cap);
  }
  return {.published = true, .warning = {}};
}

bool Store::can_publish() {
  Found ignored;
  const Root at = options_.read_only ? nullptr : root(true, ignored);
  return at != nullptr && can_write(*at);
}

Warning Store::warning(const Found& why) const {
  if (why.outcome == Outcome::unsafe) return {.code = "cache-unsafe", .message = why.detail};
  return {.code = code_of(why.failure),
          .message = fmt::format("the kernel is not stored in {}: {}", place_.directory, std::strerror(why.failure))};
}

Stats Store::stats() const {
  Stats out;
  for (std::size_t i = 0; i < kOutcomes; ++i) out.lookups[i] = lookups_[i].load(std::memory_order_relaxed);
  out.puts = puts_.load(std::memory_order_relaxed);
  out.failed_puts = failed_puts_.load(std::memory_order_relaxed);
  return out;
}

}  // namespace weft::cache
