#include "dsl/scan.h"

#include "dsl/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace weft::dsl {
namespace {

SourceRange range_of(std::size_t begin, std::size_t end) {
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool is_used(char c) {
  constexpr std::string_view kPunctuation = "_+-*/%&|!<>=()[]{},;:.?";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || is_blank(c) || c == '\n' ||
         kPunctuation.find(c) != std::string_view::npos;
}

/// Signs that editors and papers put where the language has plain ones.
std::string_view plain_form(std::string_view sign) {
  struct Plain {
    std::string_view sign, text;
  };
  static constexpr Plain kPlain[] = {{"≤", "<="}, {"≥", ">="}, {"≠", "!="},  {"−", "-"},   {"–", "-"},     {"·", "*"},
                                     {"×", "*"},  {"…", ".."}, {"∧", "and"}, {"∨", "or"},  {"∩", "&"},     {"∪", "|"},
                                     {"¬", "!"},  {"∈", "in"}, {"~", "!"},   {"∞", "inf"}, {"\u00A0", " "}};
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
    if (quoted()) return;
    if (!is_used(c)) return foreign();
    if (borrowed()) return;
    if (c == '(' || c == '[' || c == '{') open();
    if (c == ')' || c == ']' || c == '}') depth_ = std::max(0, depth_ - 1);
    ++at_;
  }

  /// 'f16' and "f16" are f16.
  bool quoted() {
    const char quote = source_[at_];
    if (quote != '\'' && quote != '"') return false;
    const std::size_t end = source_.find_first_of("'\"\n", at_ + 1);
    if (end == std::string_view::npos || source_[end] != quote) return false;
    const std::string_view inside = source_.substr(at_ + 1, end - at_ - 1);
    const SourceRange place = range_of(at_, end + 1);
    report(Code::borrowed, place, "words stand without quotes");
    const bool plain = !inside.empty() && inside.size() <= 40 && std::all_of(inside.begin(), inside.end(), is_used);
    if (plain) {
      result_.problems.back().fix = {
          .range = place, .replacement = std::string(inside), .message = "leave the quotes out"};
    }
    at_ = end + 1;
    return true;
  }

  /// Signs of Python and C. None of them can stand in a text: no operator but a prefix follows another one.
  bool borrowed() {
    const std::string_view sign = source_.substr(at_, 2);
    if (sign == "&&") return report_borrowed(sign, "'&&' is written 'and'", "and");
    if (sign == "||") return report_borrowed(sign, "'||' is written 'or'", "or");
    if (sign == "**") return power();
    if (sign != "//" && sign != "/*") return false;
    const std::size_t before = at_ == 0 ? std::string_view::npos : source_.find_last_not_of(" \t\r", at_ - 1);
    const bool begins =
        before == std::string_view::npos || std::string_view("\n;{},").find(source_[before]) != std::string_view::npos;
    if (sign == "//" && !begins) return report_borrowed(sign, "'/' on integers floors already", "/");
    report_borrowed(sign, "a comment begins with '#'", "#");
    const std::size_t end = sign == "/*" ? source_.find("*/", at_) : source_.find('\n', at_);
    at_ = end == std::string_view::npos ? source_.size() : end + (sign == "/*" ? 2 : 0);
    return true;
  }

  bool report_borrowed(std::string_view sign, std::string message, std::string_view meant) {
    const SourceRange place = range_of(at_, at_ + sign.size());
    report(Code::borrowed, place, std::move(message));
    result_.problems.back().fix = {
        .range = place, .replacement = std::string(meant), .message = fmt::format("write '{}'", meant)};
    at_ += sign.size();
    return true;
  }

  /// `x ** 2` is `(x * x)`; a power of anything longer has no short form.
  bool power() {
    const auto is_word = [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; };
    std::size_t end = at_;
    while (end > 0 && is_blank(source_[end - 1])) --end;
    std::size_t begin = end;
    while (begin > 0 && is_word(source_[begin - 1])) --begin;
    std::size_t times = at_ + 2;
    while (times < source_.size() && is_blank(source_[times])) ++times;
    const bool digit = times < source_.size() && source_[times] >= '2' && source_[times] <= '4' &&
                       (times + 1 == source_.size() || (!is_word(source_[times + 1]) && source_[times + 1] != '.'));
    report(Code::borrowed, range_of(at_, at_ + 2), "there is no operator for powers");
    result_.problems.back().notes.push_back("a square is written x * x, any power exp(y * log(x))");
    at_ += 2;
    if (!digit || begin == end || (begin > 0 && source_[begin - 1] == '.')) return true;
    const std::string base(source_.substr(begin, end - begin));
    std::string product = base;
    for (char i = '2'; i <= source_[times]; ++i) product += " * " + base;
    result_.problems.back().fix = {
        .range = range_of(begin, times + 1), .replacement = "(" + product + ")", .message = "write the product"};
    return true;
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
