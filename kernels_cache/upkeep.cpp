#include "kernels_cache/store.h"

#include "compiler/base/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <limits>

namespace weft::cache {
namespace {

constexpr std::size_t kDigestDigits = 64;
constexpr std::int64_t kAbandonedAfter = 3600;  // seconds; no write takes that long

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

enum class Kind { entry, bad, temporary, foreign };

Kind kind_of(std::string_view name) {
  constexpr std::size_t kRest = kDigestDigits - 2;
  if (name.substr(0, 4) == "tmp-") return Kind::temporary;
  if (name.size() < kRest || !is_hex(name.substr(0, kRest))) return Kind::foreign;
  if (name.size() == kRest) return Kind::entry;
  return name.substr(kRest, 4) == ".bad" ? Kind::bad : Kind::foreign;
}

bool is_abandoned(const Listed& file) { return std::time(nullptr) - file.info.st_mtim.tv_sec > kAbandonedAfter; }

void remove_file(const Descriptor& shard, const Listed& file, Removed& out) {
  if (remove_in(shard, file.name) != 0) return;
  ++out.files;
  out.bytes += static_cast<std::uint64_t>(file.info.st_size);
}

/// A value short enough for a line of an explanation.
std::string shown(const std::string& value) {
  constexpr std::size_t kLongest = 100;
  if (value.empty()) return "(none)";
  return value.size() <= kLongest ? value : value.substr(0, kLongest) + "...";
}

}  // namespace

/// visit(shard's descriptor, shard's digits, file) for everything in every shard that can be trusted.
template <typename Visit>
void Store::each_file(Visit visit) {
  Found why;
  const Root at = root(false, why);
  std::vector<Listed> shards;
  if (at == nullptr || cache::list(*at, shards) != 0) return;
  for (const Listed& shard : shards) {
    Descriptor opened;
    std::vector<Listed> files;
    if (shard.name.size() != 2 || !is_hex(shard.name) || !open_checked(*at, shard.name, opened, why)) continue;
    if (cache::list(opened, files) != 0) continue;
    for (const Listed& file : files) visit(opened, shard.name, file);
  }
}

std::vector<Listing> Store::list() {
  std::vector<Listing> out;
  each_file([&](const Descriptor&, const std::string& shard, const Listed& file) {
    if (kind_of(file.name) != Kind::entry) return;
    out.push_back({.digest = shard + file.name,
                   .bytes = static_cast<std::uint64_t>(file.info.st_size),
                   .used = file.info.st_mtim.tv_sec});
  });
  std::sort(out.begin(), out.end(),
            [](const Listing& a, const Listing& b) { return std::tie(a.used, a.digest) < std::tie(b.used, b.digest); });
  return out;
}

std::uint64_t Store::total_bytes() {
  std::uint64_t out = 0;
  each_file([&](const Descriptor&, const std::string&, const Listed& file) {
    if (kind_of(file.name) != Kind::foreign) out += static_cast<std::uint64_t>(file.info.st_size);
  });
  return out;
}

Result<Decoded> Store::read(const std::string& digest) {
  if (digest.size() != kDigestDigits || !is_hex(digest)) return user_error(digest + " is not an entry's digest");
  Found found = find(digest, nullptr);
  if (found.outcome == Outcome::hit) return std::move(found.decoded);
  if (found.outcome == Outcome::absent) return user_error("there is no entry " + digest);
  return internal_error(found.detail);
}

Verified Store::verify() {
  Verified out;
  each_file([&](const Descriptor& at, const std::string& shard, const Listed& file) {
    if (kind_of(file.name) != Kind::entry) return;
    Found found = find_in(at, file.name, nullptr);
    if (found.outcome == Outcome::absent) return;  // swept meanwhile
    if (found.outcome == Outcome::hit && hex(sha256(found.decoded.key_text)) != shard + file.name) {
      (void)rename_in(at, file.name, file.name + ".bad");
      found = {
          .outcome = Outcome::other_key, .detail = "it lies under another key's digest", .failure = 0, .decoded = {}};
    }
    if (found.outcome == Outcome::hit) {
      ++out.good;
    } else {
      out.bad.push_back({.digest = shard + file.name, .reason = std::move(found.detail)});
    }
  });
  return out;
}

Removed Store::clear() {
  Removed out;
  each_file([&](const Descriptor& at, const std::string&, const Listed& file) {
    if (kind_of(file.name) != Kind::foreign) remove_file(at, file, out);
  });
  return out;
}

Removed Store::prune(std::uint64_t cap) {
  Removed out;
  std::uint64_t total = 0;
  each_file([&](const Descriptor& at, const std::string&, const Listed& file) {
    const Kind kind = kind_of(file.name);
    if (kind == Kind::bad || (kind == Kind::temporary && is_abandoned(file))) remove_file(at, file, out);
    if (kind == Kind::entry) total += static_cast<std::uint64_t>(file.info.st_size);
  });
  if (total <= cap) return out;
  // Sweeping a little deeper than asked for leaves room for the next puts.
  const std::uint64_t goal = cap - cap / 16;
  Found why;
  const Root at = root(false, why);
  for (const Listing& entry : list()) {
    Descriptor shard;
    if (total <= goal || at == nullptr) break;
    if (!open_checked(*at, entry.digest.substr(0, 2), shard, why)) continue;
    if (remove_in(shard, entry.digest.substr(2)) != 0) continue;
    ++out.files;
    out.bytes += entry.bytes;
    total -= std::min(total, entry.bytes);
  }
  return out;
}

std::string Store::explain_miss(const Key& key) {
  const Found stored = find(key.digest(), &key.text());
  if (stored.outcome == Outcome::hit) return "the entry is stored: it is a hit\n";
  if (stored.outcome != Outcome::absent) return stored.detail + "\n";
  std::string nearest;
  std::vector<Difference> differing;
  for (const Listing& entry : list()) {
    const Found other = find(entry.digest, nullptr);
    if (other.outcome != Outcome::hit) continue;
    auto found = differences(key.text(), other.decoded.key_text);
    if (!nearest.empty() && found.size() >= differing.size()) continue;
    nearest = entry.digest;
    differing = std::move(found);
  }
  if (nearest.empty()) return "the store has no entries\n";
  std::string out = fmt::format("nearest entry {}, {} field(s) differ\n", nearest, differing.size());
  for (const Difference& field : differing) {
    out += fmt::format("  {}\n    wanted {}\n    stored {}\n", field.name, shown(field.mine), shown(field.theirs));
  }
  return out;
}

}  // namespace weft::cache
