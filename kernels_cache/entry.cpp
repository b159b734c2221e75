#include "kernels_cache/entry.h"

#include "compiler/base/digest.h"
#include "kernels_cache/key.h"
#include "kernels_cache/numbers.h"

#include <fmt/format.h>

#include <array>

namespace weft::cache {
namespace {

constexpr std::string_view kMagic = "WEFTKERN";
constexpr std::size_t kHeaderSize = 32;
constexpr std::size_t kDigestSize = sizeof(Sha256);
constexpr std::size_t kRowSize = 24 + kDigestSize;

/// The sections, in their order; a kind is its index plus one, so that zeroed bytes are no section.
enum Section : std::size_t { binary, source, plan, launch, numbers, value, words, kSections };

constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

void put_digest_of(std::string& out, std::string_view bytes) {
  const Sha256 digest = sha256(bytes);
  out.append(reinterpret_cast<const char*>(digest.data()), digest.size());
}

bool digest_matches(std::string_view bytes, std::string_view digest) {
  const Sha256 actual = sha256(bytes);
  return digest == std::string_view(reinterpret_cast<const char*>(actual.data()), actual.size());
}

std::string encode_numbers(const Entry& entry) {
  std::string out;
  put<std::uint64_t>(out, entry.build_us);
  put<std::uint64_t>(out, entry.registers ? *entry.registers : kUnknown);
  put<std::uint64_t>(out, entry.spill_bytes ? *entry.spill_bytes : kUnknown);
  return out;
}

std::optional<std::uint32_t> small_number(std::uint64_t value) {
  if (value == kUnknown) return std::nullopt;
  return static_cast<std::uint32_t>(value);
}
bool is_small(std::uint64_t value) { return value == kUnknown || value <= UINT32_MAX; }

Error broken(std::string what) { return internal_error(std::move(what)); }

/// The sections' bytes, after every length and offset has been checked.
Result<std::array<std::string_view, kSections>> checked_sections(std::string_view bytes, std::size_t table,
                                                                 std::size_t end, Check check) {
  std::array<std::string_view, kSections> out;
  std::size_t at = table + kSections * kRowSize;
  for (std::size_t i = 0; i < kSections; ++i) {
    const std::size_t row = table + i * kRowSize;
    const auto length = get<std::uint64_t>(bytes, row + 16);
    if (get<std::uint32_t>(bytes, row) != i + 1 || get<std::uint32_t>(bytes, row + 4) != 0 ||
        get<std::uint64_t>(bytes, row + 8) != at || length > end - at) {
      return broken(fmt::format("row {} of the section table is wrong", i));
    }
    out[i] = bytes.substr(at, length);
    if (check == Check::file_and_sections && !digest_matches(out[i], bytes.substr(row + 24, kDigestSize))) {
      return broken(fmt::format("the digest of section {} is wrong", i));
    }
    at += length;
  }
  if (at != end) return broken("there are bytes that belong to no section");
  return out;
}

}  // namespace

std::string encode(std::string_view key_text, const Entry& entry) {
  const std::string number_bytes = encode_numbers(entry);
  const std::array<std::string_view, kSections> sections = {entry.binary, entry.source, entry.plan, entry.launch,
                                                            number_bytes, entry.value,  entry.words};
  std::uint64_t offset = kHeaderSize + key_text.size() + kSections * kRowSize;
  std::uint64_t total = offset + kDigestSize;
  for (std::string_view section : sections) total += section.size();
  std::string out;
  out.reserve(total);
  out += kMagic;
  put<std::uint32_t>(out, kFormat);
  put<std::uint32_t>(out, kSections);
  put<std::uint64_t>(out, total);
  put<std::uint64_t>(out, key_text.size());
  out += key_text;
  for (std::size_t i = 0; i < kSections; ++i) {
    put<std::uint32_t>(out, static_cast<std::uint32_t>(i + 1));
    put<std::uint32_t>(out, 0);
    put<std::uint64_t>(out, offset);
    put<std::uint64_t>(out, sections[i].size());
    put_digest_of(out, sections[i]);
    offset += sections[i].size();
  }
  for (std::string_view section : sections) out += section;
  put_digest_of(out, out);
  return out;
}

Result<Decoded> decode(std::string_view bytes, Check check) {
  const auto format = format_of(bytes);
  if (!format) return broken("it does not start like an entry");
  if (*format != kFormat)
    return broken(fmt::format("it has format {}, this version of Weft reads {}", *format, kFormat));
  constexpr std::size_t kSmallest = kHeaderSize + kSections * kRowSize + kDigestSize;
  if (bytes.size() < kSmallest || get<std::uint64_t>(bytes, 16) != bytes.size()) {
    return broken(fmt::format("it has {} bytes, which is not the length it states", bytes.size()));
  }
  const std::size_t end = bytes.size() - kDigestSize;
  if (!digest_matches(bytes.substr(0, end), bytes.substr(end))) return broken("its digest is wrong");
  const auto key_length = get<std::uint64_t>(bytes, 24);
  if (get<std::uint32_t>(bytes, 12) != kSections || key_length > bytes.size() - kSmallest) {
    return broken("its header is wrong");
  }
  WEFT_TRY(const auto sections, checked_sections(bytes, kHeaderSize + key_length, end, check));
  if (sections[numbers].size() != 24) return broken("its numbers are incomplete");
  for (const std::size_t at : {std::size_t{8}, std::size_t{16}}) {
    if (!is_small(get<std::uint64_t>(sections[numbers], at))) return broken("its numbers are too large");
  }
  Decoded out;
  out.key_text = bytes.substr(kHeaderSize, key_length);
  out.entry = {.binary = std::string(sections[binary]),
               .source = std::string(sections[source]),
               .plan = std::string(sections[plan]),
               .launch = std::string(sections[launch]),
               .build_us = get<std::uint64_t>(sections[numbers], 0),
               .registers = small_number(get<std::uint64_t>(sections[numbers], 8)),
               .spill_bytes = small_number(get<std::uint64_t>(sections[numbers], 16)),
               .value = std::string(sections[value]),
               .words = std::string(sections[words])};
  return out;
}

std::string_view key_text_of(std::string_view start) {
  if (start.size() < kHeaderSize || format_of(start) != kFormat) return {};
  const auto length = get<std::uint64_t>(start, 24);
  return length > start.size() - kHeaderSize ? std::string_view() : start.substr(kHeaderSize, length);
}

std::optional<std::uint32_t> format_of(std::string_view bytes) {
  if (bytes.size() < kMagic.size() + 4 || bytes.substr(0, kMagic.size()) != kMagic) return std::nullopt;
  return get<std::uint32_t>(bytes, kMagic.size());
}

}  // namespace weft::cache
