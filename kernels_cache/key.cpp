#include "kernels_cache/key.h"

#include "compiler/base/digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>

namespace weft::cache {
namespace {

std::string first_line(EntryKind kind) { return fmt::format("weft {} key {}\n", names_of(kind).word, kKeyFormat); }

std::optional<EntryKind> kind_of_text(std::string_view key_text) {
  for (const auto& known : kEntryKinds) {
    if (key_text.starts_with(first_line(known.kind))) return known.kind;
  }
  return std::nullopt;
}

bool is_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

/// A value takes one line, whatever is in it.
std::string escaped(std::string_view value) {
  std::string out;
  for (char c : value) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescaped(std::string_view value) {
  std::string out;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const bool escape = value[i] == '\\' && i + 1 < value.size();
    if (escape) ++i;
    out += escape && value[i] == 'n' ? '\n' : value[i];
  }
  return out;
}

}  // namespace

Key::Key(EntryKind kind) : kind_(kind), text_(first_line(kind)) {}

std::optional<Key> Key::parse(std::string_view text) {
  const auto kind = kind_of_text(text);
  if (!kind) return std::nullopt;
  Key out(*kind);
  for (const Field& field : fields_of(text)) out.add(field.name, field.value);
  if (out.text_ != text) return std::nullopt;
  return out;
}

Key& Key::add(std::string_view name, std::string_view value) {
  assert(is_name(name));
  text_ += fmt::format("{}={}\n", name, escaped(value));
  return *this;
}

Key& Key::add_digest_of(std::string_view name, std::string_view text) {
  return add(name, fmt::format("{} bytes, sha256 {}", text.size(), hex(sha256(text))));
}

std::string Key::digest() const { return hex(sha256(text_)); }

std::string Key::entry_name() const { return digest().append(names_of(kind_).ending); }

std::vector<Field> fields_of(std::string_view key_text) {
  const auto kind = kind_of_text(key_text);
  if (!kind) return {};
  key_text.remove_prefix(first_line(*kind).size());
  std::vector<Field> out;
  while (!key_text.empty()) {
    const std::size_t end = key_text.find('\n');
    const std::string_view line = key_text.substr(0, end);
    const std::size_t equals = line.find('=');
    if (end == std::string_view::npos || equals == std::string_view::npos || !is_name(line.substr(0, equals)))
      return {};
    out.push_back({std::string(line.substr(0, equals)), unescaped(line.substr(equals + 1))});
    key_text.remove_prefix(end + 1);
  }
  return out;
}

std::vector<Difference> differences(std::string_view mine, std::string_view theirs) {
  std::map<std::string, Difference> by_name;
  for (const Field& field : fields_of(mine)) by_name[field.name].mine = field.value;
  for (const Field& field : fields_of(theirs)) by_name[field.name].theirs = field.value;
  std::vector<Difference> out;
  for (auto& [name, difference] : by_name) {
    difference.name = name;
    if (difference.mine != difference.theirs) out.push_back(std::move(difference));
  }
  return out;
}

}  // namespace weft::cache
