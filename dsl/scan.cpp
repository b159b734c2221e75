#include "dsl/scan.h"

#include "dsl/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace weft::dsl {
namespace {

SourceRange range_of(std::size_t begin, std::size_t end) {
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool is_used(char c) {
  constexpr std::string_view kPunctuation = "_+-*/%&|!<>=()[]{},;:.";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || is_blank(c) || c == '\n' ||
         kPunctuation.find(c) != std::string_view::npos;
}

/// Signs that editors and papers put where the language has plain ones.
std::string_view plain_form(std::string_view sign) {
  struct Plain {
    std::string_view sign, text;
  };
  static constexpr Plain kPlain[] = {{"≤", "<="}, {"≥", ">="}, {"≠", "!="}, {"−", "-"},   {"–", "-"},
                                     {"·", "*"},  {"×", "*"},  {"…", ".."}, {"∧", "and"}, {"∨", "or"},
                                     {"∩", "&"},  {"∪", "|"},  {"¬", "!"},  {"∈", "in"},  {"\u00A0", " "}};
  for (const Plain& plain : kPlain) {
    if (plain.sign == sign) return plain.text;
  }
  return {};
}

class Scanner {
 public:
  explicit Scanner(const Source& source) : source_(source.text) { result_.text = source.text; }

  Scan run() && {
    if (source_.size() > kLargestSource) {
      report(Code::source_too_large, {0, 0},
             fmt::format("the source has {} bytes; at most 1 MiB is read", source_.size()));
      return std::move(result_);
    }
    skip_byte_order_mark();
    while (at_ < source_.size() && !stop_) step();
    if (result_.problems.empty() && std::all_of(result_.text.begin(), result_.text.end(), is_space)) {
      report(Code::empty_file, {0, 0}, "the file is empty: it defines neither a pattern nor a constant");
    }
    return std::move(result_);
  }

 private:
  static bool is_space(char c) { return is_blank(c) || c == '\n'; }

  void report(Code code, SourceRange range, std::string message, std::string label = {}) {
    result_.problems.push_back(finding(code, range, std::move(message), std::move(label)));
    stop_ = result_.problems.size() >= kMostFindings;
  }

  void skip_byte_order_mark() {
    if (!source_.starts_with("\xEF\xBB\xBF")) return;
    result_.text.replace(0, 3, "   ");
    at_ = 3;
  }

  void step() {
    const char c = source_[at_];
    if (c == '#') return comment();
    if (!is_used(c)) return foreign();
    if (c == '(' || c == '[' || c == '{') open();
    if (c == ')' || c == ']' || c == '}') depth_ = std::max(0, depth_ - 1);
    ++at_;
  }

  void open() {
    if (++depth_ != kDeepestNesting + 1) return;
    report(Code::nested_too_deep, range_of(at_, at_ + 1),
           fmt::format("brackets are nested more than {} deep", kDeepestNesting));
    stop_ = true;
  }

  void comment() {
    const std::size_t end = std::min(source_.find('\n', at_), source_.size());
    std::size_t last = end;
    while (is_blank(source_[last - 1])) --last;
    result_.comments.push_back({range_of(at_, last), std::string(source_.substr(at_ + 1, last - at_ - 1))});
    std::fill(result_.text.begin() + static_cast<std::ptrdiff_t>(at_),
              result_.text.begin() + static_cast<std::ptrdiff_t>(end), ' ');
    at_ = end;
  }

  void foreign() {
    const std::size_t length = utf8_length(source_, at_);
    if (length == 0) {
      report(Code::bad_utf8, range_of(at_, at_ + 1),
             fmt::format("byte 0x{:02X} is not part of a UTF-8 text", static_cast<unsigned char>(source_[at_])));
      stop_ = true;  // Most likely not a text at all; one message says it.
      return;
    }
    const std::string_view sign = source_.substr(at_, length);
    const auto first = static_cast<unsigned char>(sign.front());
    report(Code::bad_character, range_of(at_, at_ + length),
           first < 0x20 || first == 0x7F ? fmt::format("control character 0x{:02X}", first)
                                         : fmt::format("the language has no '{}' outside comments", sign));
    if (const std::string_view plain = plain_form(sign); !plain.empty()) {
      result_.problems.back().fix = {.range = range_of(at_, at_ + length),
                                     .replacement = std::string(plain),
                                     .message = fmt::format("write '{}'", plain)};
    }
    at_ += length;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool stop_ = false;
  Scan result_;
};

}  // namespace

Scan scan(const Source& source) { return Scanner(source).run(); }

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned lead = byte(at);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead < 0xE0   ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) return 0;
  }
  const unsigned second = byte(at + 1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0;
  const bool beyond = lead == 0xF4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

}  // namespace weft::dsl
