#include "compiler/base/digest.h"
#include "kernels_cache/files.h"
#include "kernels_cache/store.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <ctime>

/// How the store keeps to its size.
namespace weft::cache {
namespace {

constexpr const char* kUsage = "usage";
constexpr std::chrono::milliseconds kPatience{250};  // for a turn: a sweeper that was stopped stops nobody else

constexpr std::int64_t kAbandonedAfter = 3600;  // seconds; no write takes that long
constexpr std::int64_t kClockSlack = 3600;      // machines that share a store differ by less

std::int64_t age_of(const Listed& file) { return std::time(nullptr) - file.info.st_mtim.tv_sec; }

/// In the future, too: it was written by a clock that was wrong, or this one is. A writer that loses its file to
/// this writes another.
bool is_abandoned(const Listed& file) { return age_of(file) > kAbandonedAfter || age_of(file) < -kClockSlack; }

std::int64_t used(const Listed& file) { return age_of(file) < -kClockSlack ? 0 : file.info.st_mtim.tv_sec; }

std::uint64_t size_of(const Listed& file) { return static_cast<std::uint64_t>(file.info.st_size); }

bool remove_file(const Descriptor& shard, const Listed& file, Removed& out) {
  if (const int failure = remove_in(shard, file.name); failure != 0) {
    if (failure == ENOENT) return false;  // swept meanwhile
    ++out.failed;
    out.failure = failure;
    return false;
  }
  ++out.files;
  out.bytes += size_of(file);
  return true;
}

constexpr std::uint64_t kUnknown = ~std::uint64_t{0};  // leaves no room under any cap

std::uint64_t read_usage(const Descriptor& root) {
  Descriptor file;
  std::uint64_t out = 0;
  if (open_note(root, kUsage, file) != 0) return kUnknown;
  const std::string text = read_note(file);
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
  return parsed.ec == std::errc() && std::string_view(parsed.ptr) == "\n" ? out : kUnknown;
}

void write_usage(const Descriptor& root, std::uint64_t bytes) {
  Descriptor file;
  if (open_note(root, kUsage, file) == 0) write_note(file, fmt::format("{}\n", bytes));
}

}  // namespace

std::string Store::lock_name(const std::string& digest) {
  Found ignored;
  const Root at = root(true, ignored);
  struct stat info {};
  // Whatever path it was reached by.
  if (at != nullptr) (void)::fstat(at->get(), &info);
  return hex(sha256(fmt::format("{}:{}:{}", info.st_dev, info.st_ino, digest))).substr(0, 32);
}

Lock Store::room_lock() { return locks_.acquire({.name = lock_name("room"), .at_most = kPatience}); }

/// Enters `bytes` more into the sum of sizes, after a sweep where there is no room for them.
bool Store::make_room(const Descriptor& root, std::uint64_t bytes, Found& why) {
  if (bytes > options_.cap) {
    why.failure = EFBIG;
    return false;
  }
  const Lock turn = room_lock();
  std::uint64_t sum = read_usage(root);
  if (sum > options_.cap || bytes > options_.cap - sum) {
    // Sweeping a little deeper than asked for leaves room for the next puts.
    const std::uint64_t goal = options_.cap - options_.cap / 16;
    Removed ignored;
    sum = sweep(options_.cap - bytes, goal - std::min(goal, bytes), ignored);
  }
  write_usage(root, sum + bytes);
  return true;
}

/// Removes what killed processes left behind and what is bad; then, where more than `cap` bytes are left, the least
/// recently used until `goal` are. What is left.
std::uint64_t Store::sweep(std::uint64_t cap, std::uint64_t goal, Removed& out) {
  struct Stored {
    std::int64_t used;
    std::string name;
    Listed file;
  };
  std::vector<Stored> entries;
  std::uint64_t left = 0;
  each_file([&](const Descriptor& at, const std::string& shard, const Listed& file) {
    const Kind kind = kind_of(file.name);
    if (kind == Kind::foreign) return;
    const bool rubbish = kind == Kind::bad || (kind == Kind::temporary && is_abandoned(file));
    if (rubbish && remove_file(at, file, out)) return;
    left += size_of(file);
    if (kind == Kind::kernel || kind == Kind::beside) {
      entries.push_back({.used = used(file), .name = shard + file.name, .file = file});
    }
  });
  if (left <= cap) return left;
  std::sort(entries.begin(), entries.end(),
            [](const Stored& a, const Stored& b) { return std::tie(a.used, a.name) < std::tie(b.used, b.name); });
  Found why;
  const Root at = root(false, why);
  for (const Stored& entry : entries) {
    Descriptor shard;
    if (left <= goal || at == nullptr) break;
    if (!open_checked(*at, entry.name.substr(0, kShardDigits), shard, why)) continue;
    if (remove_file(shard, entry.file, out)) left -= size_of(entry.file);
  }
  return left;
}

Removed Store::prune(std::uint64_t cap) {
  Removed out;
  Found ignored;
  const Root at = options_.read_only ? nullptr : root(false, ignored);
  if (at == nullptr) return out;
  const Lock turn = room_lock();
  write_usage(*at, sweep(cap, cap - cap / 16, out));
  locks_.sweep();
  return out;
}

Removed Store::clear() {
  Removed out;
  Found ignored;
  const Root at = options_.read_only ? nullptr : root(false, ignored);
  if (at == nullptr) return out;
  const Lock turn = room_lock();
  each_file([&](const Descriptor& shard, const std::string&, const Listed& file) {
    if (kind_of(file.name) != Kind::foreign) (void)remove_file(shard, file, out);
  });
  (void)remove_in(*at, kUsage);  // the next writer counts
  locks_.sweep();
  return out;
}

}  // namespace weft::cache
