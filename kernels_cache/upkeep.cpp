#include "compiler/base/digest.h"
#include "kernels_cache/files.h"
#include "kernels_cache/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <limits>

namespace weft::cache {
namespace {

constexpr std::uint64_t kLongestStart = 16 << 10;  // of an entry: its key is within

/// A value short enough for a line of an explanation.
std::string shown(const std::string& value) {
  constexpr std::size_t kLongest = 100;
  if (value.empty()) return "(none)";
  return value.size() <= kLongest ? value : value.substr(0, kLongest) + "...";
}

/// The key's text at the start of an entry; empty where there is none.
std::string read_key_text(const Descriptor& shard, const Listed& listed) {
  Descriptor file;
  struct stat info {};
  std::string bytes;
  if (open_file(shard, listed.name, file, info) != 0 || !S_ISREG(info.st_mode)) return {};
  const auto size = std::min(static_cast<std::uint64_t>(info.st_size), kLongestStart);
  if (read_whole(file, size, bytes) != 0) return {};
  return std::string(key_text_of(bytes));
}

}  // namespace

std::vector<Listing> Store::list() {
  std::vector<Listing> out;
  each_file([&](const Descriptor&, const std::string& shard, const Listed& file) {
    if (kind_of(file.name) != Kind::kernel) return;
    out.push_back({.digest = shard + file.name,
                   .bytes = static_cast<std::uint64_t>(file.info.st_size),
                   .used = file.info.st_mtim.tv_sec});
  });
  std::sort(out.begin(), out.end(),
            [](const Listing& a, const Listing& b) { return std::tie(a.used, a.digest) < std::tie(b.used, b.digest); });
  return out;
}

Store::Totals Store::totals() {
  Totals out;
  each_file([&](const Descriptor&, const std::string&, const Listed& file) {
    const Kind kind = kind_of(file.name);
    if (kind != Kind::foreign) out.bytes += static_cast<std::uint64_t>(file.info.st_size);
    if (kind == Kind::kernel) ++out.entries;
  });
  return out;
}

Result<Decoded> Store::read(const std::string& digest) {
  if (digest.size() != kDigestDigits || !is_hex(digest)) return user_error(digest + " is not an entry's digest");
  Found found = find(digest, {});
  if (found.outcome == Outcome::hit) return std::move(found.decoded);
  if (found.outcome == Outcome::absent) return user_error("there is no entry " + digest);
  return internal_error(found.detail);
}

Verified Store::verify() {
  Verified out;
  each_file([&](const Descriptor& at, const std::string& shard, const Listed& file) {
    const Kind kind = kind_of(file.name);
    if (kind != Kind::kernel && kind != Kind::beside) return;
    Found found = find_in(at, file.name, {});
    if (found.outcome == Outcome::absent) return;  // swept meanwhile
    const auto key = Key::parse(found.decoded.key_text);
    if (found.outcome == Outcome::hit && (!key || key->entry_name() != shard + file.name)) {
      (void)rename_in(at, file.name, file.name + ".bad");
      found = {
          .outcome = Outcome::other_key, .detail = "it lies under another key's digest", .failure = 0, .decoded = {}};
    }
    if (found.outcome == Outcome::hit) {
      if (kind == Kind::kernel) ++out.good;
    } else {
      out.bad.push_back({.digest = (shard + file.name).substr(0, kDigestDigits), .reason = std::move(found.detail)});
    }
  });
  return out;
}

Store::Nearest Store::nearest(const Key& key) {
  Nearest out;
  each_file([&](const Descriptor& at, const std::string& shard, const Listed& file) {
    std::string digest = shard + file.name;
    if (kind_of(file.name) != Kind::kernel) return;
    // The name of an entry is its key's digest, so that a key is verified without the rest of the file.
    const std::string text = read_key_text(at, file);
    if (hex(sha256(text)) != digest) return;
    auto differing = differences(key.text(), text);
    const bool nearer = out.digest.empty() || differing.size() < out.differences.size() ||
                        (differing.size() == out.differences.size() && digest < out.digest);
    if (nearer) out = {.digest = std::move(digest), .differences = std::move(differing)};
  });
  return out;
}

std::string Store::explain_miss(const Key& key) {
  const Found stored = find(key.digest(), {.key_text = &key.text()});
  if (stored.outcome == Outcome::hit) return "the entry is stored: it is a hit\n";
  if (stored.outcome != Outcome::absent) return stored.detail + "\n";
  const Nearest found = nearest(key);
  if (found.digest.empty()) return "the store has no entries\n";
  std::string out = fmt::format("nearest entry {}, {} field(s) differ\n", found.digest, found.differences.size());
  for (const Difference& field : found.differences) {
    out += fmt::format("  {}\n    wanted {}\n    stored {}\n", field.name, shown(field.mine), shown(field.theirs));
  }
  return out;
}

}  // namespace weft::cache
