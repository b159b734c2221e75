#include "tools/npy_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <optional>
#include <utility>

namespace weft::npy {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kLongestHeader = std::size_t{1} << 16;
constexpr std::size_t kMostAxes = 32;
constexpr std::int64_t kLargestExtent = std::int64_t{1} << 40;

struct TypeRow {
  Type type;
  const char* text;
  std::size_t size;
};

constexpr TypeRow kTypes[] = {{Type::f2, "<f2", 2}, {Type::f4, "<f4", 4}, {Type::f8, "<f8", 8}, {Type::i4, "<i4", 4},
                              {Type::u1, "|u1", 1}, {Type::u2, "<u2", 2}, {Type::v2, "|V2", 2}, {Type::i1, "|i1", 1},
                              {Type::i2, "<i2", 2}, {Type::i8, "<i8", 8}, {Type::u4, "<u4", 4}, {Type::u8, "<u8", 8},
                              {Type::b1, "|b1", 1}};

std::optional<Type> find_type(std::string_view text) {
  for (const auto& row : kTypes) {
    // Bytes have no order, so writers differ in what they put there.
    const bool unordered = row.size == 1 || row.type == Type::v2;
    if (text == row.text || (unordered && text.size() == 3 && text.substr(1) == row.text + 1)) return row.type;
  }
  return std::nullopt;
}

/// Reads the dictionary from left to right. The first thing out of place ends it.
class Reader {
 public:
  Reader(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {}

  Result<Header> run() {
    Header header;
    if (!take('{')) return expected("'{'");
    std::array<bool, 3> seen = {};
    while (!take('}')) {
      const auto key = string();
      if (!key || !take(':')) return expected("a key of the header");
      WEFT_CHECK(value(*key, header, seen));
      if (!take(',') && !peek('}')) return expected("',' or '}'");
    }
    if (!(seen[0] && seen[1] && seen[2])) return fail("the header needs descr, fortran_order and shape");
    return header;
  }

 private:
  Status value(std::string_view key, Header& header, std::array<bool, 3>& seen) {
    constexpr std::array<std::string_view, 3> kKeys = {"descr", "fortran_order", "shape"};
    for (std::size_t i = 0; i < kKeys.size(); ++i) {
      if (key != kKeys[i]) continue;
      if (std::exchange(seen[i], true)) return fail(fmt::format("the header has '{}' twice", key));
      return i == 0 ? type(header) : i == 1 ? order(header) : shape(header);
    }
    return fail(fmt::format("the header has an unknown key '{}'", key));
  }

  Status type(Header& header) {
    if (peek('[')) return fail("a structured type is not a tensor");
    const auto text = string();
    if (!text) return expected("a type");
    const auto found = find_type(*text);
    if (!found) return fail(fmt::format("type '{}', expected one of <f2 <f4 <f8 <i4 |u1 <u2 |V2", *text));
    header.type = *found;
    return done;
  }

  Status order(Header& header) {
    header.fortran = take_word("True");
    return header.fortran || take_word("False") ? Status(done) : expected("True or False");
  }

  Status shape(Header& header) {
    if (!take('(')) return expected("a shape");
    while (!take(')')) {
      const auto extent = number();
      if (!extent) return expected("an extent");
      header.shape.push_back(*extent);
      if (header.shape.size() > kMostAxes) return fail(fmt::format("more than {} axes", kMostAxes));
      if (!take(',') && !peek(')')) return expected("',' or ')'");
    }
    return done;
  }

  std::optional<std::int64_t> number() {
    skip_blanks();
    std::int64_t value = 0;
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = value * 10 + (text_[at_++] - '0');
      if (value > kLargestExtent) return std::nullopt;
    }
    if (begin == at_) return std::nullopt;
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // long integers of Python 2
    return value;
  }

  std::optional<std::string_view> string() {
    skip_blanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const auto inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool peek(char c) {
    skip_blanks();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    const bool found = peek(c);
    if (found) ++at_;
    return found;
  }
  bool take_word(std::string_view word) {
    skip_blanks();
    const bool found = text_.substr(at_).starts_with(word);
    if (found) at_ += word.size();
    return found;
  }

  Error fail(std::string what) const { return user_error(fmt::format("{}: {}", name_, what)); }
  Error expected(std::string_view what) const {
    return fail(fmt::format("damaged header: expected {} at byte {}", what, at_));
  }

  std::string_view text_;
  std::string name_;
  std::size_t at_ = 0;
};

}  // namespace

const char* to_string(Type type) { return kTypes[static_cast<std::size_t>(type)].text; }
std::size_t size_of(Type type) { return kTypes[static_cast<std::size_t>(type)].size; }

Result<Header> decode_header(std::string_view file, const std::string& name) {
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(file[i])); };
  if (!file.starts_with(kMagic) || file.size() < 10) {
    return user_error(fmt::format("{}: not an .npy file (it does not begin with the format's magic bytes)", name));
  }
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) {
    return user_error(fmt::format("{}: .npy version {}, expected 1, 2 or 3", name, version));
  }
  const std::size_t begin = version == 1 ? 10 : 12;
  if (file.size() < begin) return user_error(fmt::format("{}: the file ends inside its header", name));
  const std::size_t length = byte(8) | byte(9) << 8 | (version == 1 ? 0 : byte(10) << 16 | byte(11) << 24);
  if (length > kLongestHeader) {
    return user_error(fmt::format("{}: a header of {} bytes, expected {} at most", name, length, kLongestHeader));
  }
  if (file.size() < begin + length) return user_error(fmt::format("{}: the file ends inside its header", name));
  WEFT_TRY(Header header, Reader(file.substr(begin, length), name).run());
  header.begin = begin + length;
  return header;
}

std::string encode_header(const NpyArray& array) {
  std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", to_string(array.type),
                  fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  // Values start at a multiple of 64, as NumPy writes it; version 1 holds every shape we have.
  while ((10 + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  out += static_cast<char>(dictionary.size() & 0xFFU);
  out += static_cast<char>(dictionary.size() >> 8);
  return out + dictionary;
}

}  // namespace weft::npy
