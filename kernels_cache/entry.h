#pragma once

#include "compiler/base/result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// One entry is one file:
///
///     magic "WEFTKERN", format u32, number of sections u32, length of the file u64, length of the key u64
///     the key's text
///     per section: kind u32, zero u32, offset u64, length u64, SHA-256
///     the sections, in the table's order, without gaps
///     SHA-256 of everything before it
///
/// Numbers are little-endian. The data is passive: it is read as a whole, checked as a whole, and copied out.
namespace weft::cache {

/// What it has goes by its kind: a note has no binary, a measurement nothing but what was measured.
struct Entry {
  std::string binary = {};
  std::string source = {};
  std::string plan = {};
  std::string launch = {};  ///< what the runtime needs beside the binary; its text is the runtime's business
  std::uint64_t build_us = 0;
  std::optional<std::uint32_t> registers = {};
  std::optional<std::uint32_t> spill_bytes = {};
  std::string value = {};  ///< what was measured …
  std::string words = {};  ///< … and what that is, for people
  bool operator==(const Entry&) const = default;
};

/// Larger files are no entries: nothing is read or allocated for them.
inline constexpr std::uint64_t kLargestEntry = 256U << 20;

/// The same key and entry give the same bytes.
std::string encode(std::string_view key_text, const Entry& entry);

struct Decoded {
  std::string key_text;
  Entry entry;
};

/// The digest of the file covers every byte; those of the sections tell which of them is wrong, and are for
/// readers of single sections. Checking both costs twice the time of a hit.
enum class Check { file, file_and_sections };

/// Checks every byte before it gives any. Internal error, saying what is wrong, for everything that encode()
/// of this format did not write.
Result<Decoded> decode(std::string_view bytes, Check check = Check::file);

/// The key's text in the first bytes of an entry of this format. Not verified; empty where there is none, or not all.
std::string_view key_text_of(std::string_view start);

/// The format of bytes that start like an entry, whatever follows; nothing for other bytes.
std::optional<std::uint32_t> format_of(std::string_view bytes);

}  // namespace weft::cache
