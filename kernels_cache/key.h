#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cache {

/// Version of the entry's layout and the directory's. A change starts a new directory, so that versions of Weft that
/// share a root never see each other's entries.
inline constexpr unsigned kFormat = 2;

/// Version of the key's text, by which bundles are asked, too: those of older versions are served as long as it stays.
inline constexpr unsigned kKeyFormat = 1;

/// What an entry is: a kernel, a note of what a request became, or what was measured of a machine. The latter two are
/// small, are no kernels to who counts and lists, and are verified, kept and swept like them.
enum class EntryKind { kernel, note, measurement };
struct EntryKindNames {
  EntryKind kind;
  std::string_view word;    ///< in the first line of its keys
  std::string_view ending;  ///< of its files
};
inline constexpr EntryKindNames kEntryKinds[] = {{EntryKind::kernel, "kernel", ""},
                                                 {EntryKind::note, "note", ".note"},
                                                 {EntryKind::measurement, "measurement", ".measurement"}};
constexpr const EntryKindNames& names_of(EntryKind kind) { return kEntryKinds[static_cast<int>(kind)]; }

/// Everything that can change a binary's bytes, as named fields. The text is canonical (the same fields in the
/// same order give the same text, different ones a different text) and is stored in the entry, so that a hit
/// is a match of texts and a miss can say which fields differ.
class Key {
 public:
  explicit Key(EntryKind kind = EntryKind::kernel);

  /// The key that has this text; nothing for a text that no Key has.
  static std::optional<Key> parse(std::string_view text);

  /// `name` of lower-case letters, digits, `_` and `.`; `value` any bytes.
  Key& add(std::string_view name, std::string_view value);

  /// For texts too long to keep in each entry: their length and SHA-256.
  Key& add_digest_of(std::string_view name, std::string_view text);

  const std::string& text() const { return text_; }

  /// SHA-256 of the text, in 64 hexadecimal digits.
  std::string digest() const;

  EntryKind kind() const { return kind_; }

  /// What the entry is called in a store: the digest, and its kind's ending.
  std::string entry_name() const;

 private:
  EntryKind kind_;
  std::string text_;
};

struct Field {
  std::string name;
  std::string value;
  bool operator==(const Field&) const = default;
};

/// The fields of a key's text; empty for a text that no Key has.
std::vector<Field> fields_of(std::string_view key_text);

/// What two keys do not share: the fields' values on either side, empty where one has no such field.
struct Difference {
  std::string name;
  std::string mine;
  std::string theirs;
};
std::vector<Difference> differences(std::string_view mine, std::string_view theirs);

}  // namespace weft::cache
