#pragma once

#include "kernels_cache/directory.h"
#include "kernels_cache/store.h"

#include <algorithm>
#include <string_view>

/// What lies in a store's directories, by name.
namespace weft::cache {

inline constexpr std::size_t kDigestDigits = 64;
inline constexpr std::size_t kShardDigits = 2;

inline bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// `beside`: an entry that is no kernel.
enum class Kind { kernel, beside, bad, temporary, foreign };

inline Kind kind_of(std::string_view name) {
  constexpr std::size_t kRest = kDigestDigits - kShardDigits;
  if (name.substr(0, 4) == "tmp-") return Kind::temporary;
  if (name.size() < kRest || !is_hex(name.substr(0, kRest))) return Kind::foreign;
  std::string_view ending = name.substr(kRest);
  Kind kind = Kind::kernel;
  for (const auto& known : kEntryKinds) {
    if (known.ending.empty() || !ending.starts_with(known.ending)) continue;
    ending.remove_prefix(known.ending.size());
    kind = Kind::beside;
    break;
  }
  if (ending.empty()) return kind;
  return ending.starts_with(".bad") ? Kind::bad : Kind::foreign;
}

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
    if (shard.name.size() != kShardDigits || !is_hex(shard.name)) continue;
    if (!open_checked(*at, shard.name, opened, why) || cache::list(opened, files) != 0) continue;
    for (const Listed& file : files) visit(opened, shard.name, file);
  }
}

}  // namespace weft::cache
