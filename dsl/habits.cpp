// What people write who come from Python, C or FlexAttention: understood, said, and shown as it is written here.

#include "dsl/build.h"
#include "dsl/diagnostics.h"
#include "dsl/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace weft::dsl {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; }

char closer_of(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }

/// The brackets that are open at `at`, outermost first, as far back as the statement begins.
std::vector<std::size_t> open_brackets(std::string_view text, std::size_t at) {
  std::vector<std::size_t> open;
  const std::size_t begin = at == 0 ? std::string_view::npos : text.find_last_of(";{}", at - 1);
  for (std::size_t i = begin == std::string_view::npos ? 0 : begin + 1; i < at; ++i) {
    if (text[i] == '(' || text[i] == '[') open.push_back(i);
    if ((text[i] == ')' || text[i] == ']') && !open.empty()) open.pop_back();
  }
  return open;
}

/// `heads: 8` and `keep = causal` have a sign too many.
bool ends_with_statement(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  const auto& words = statement_words();
  return std::any_of(words.begin(), words.end(),
                     [&](const StatementWord& row) { return row.name == text.substr(begin); });
}

SourceRange range_of(std::size_t begin, std::size_t end) {
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

}  // namespace

Node Builder::choice(Node first, const std::vector<RawChoice>& choices) {
  const auto text = [this](const Node& node) {
    return std::string(text_.substr(node->outer.begin, node->outer.end - node->outer.begin));
  };
  const bool c_form = choices.front().condition_first;
  const SourceRange place{first->outer.begin, choices.back().third->outer.end};
  Diagnostic d = finding(Code::borrowed, place,
                         c_form ? "a choice is written select(condition, a, b), not 'condition ? a : b'"
                                : "a choice is written select(condition, a, b), not 'a if condition else b'");
  constexpr std::size_t kMostShown = 8;
  if (choices.size() <= kMostShown) {
    std::string out = text(first), ends;
    std::string head = std::move(out);
    out.clear();
    for (const RawChoice& choice : choices) {
      const std::string second = text(choice.second);
      out += choice.condition_first ? fmt::format("select({}, {}, ", head, second)
                                    : fmt::format("select({}, {}, ", second, head);
      ends += ')';
      head = text(choice.third);
    }
    d.fix = Fix{place, out + head + ends, "write 'select'"};
  }
  report(std::move(d));
  return first;
}

void Builder::assigned(SourceRange name, SourceRange sign) {
  Diagnostic d = finding(Code::borrowed, {sign.begin, sign.begin + 1}, "an argument gets its name with ':', not '='");
  const bool blank = sign.begin + 1 < text_.size() && text_[sign.begin + 1] == ' ';
  d.fix = Fix{{name.end, sign.begin + 1}, blank ? ":" : ": ", "write ':'"};
  report(std::move(d));
}

/// A seed is any 64 bits: those from 2^63 on are written as the negative number that has them.
void Builder::mend_seed(Diagnostic& d, SourceRange number) const {
  std::uint64_t bits = 0;
  const char* begin = text_.data() + number.begin;
  const char* end = text_.data() + number.end;
  std::string_view before = text_.substr(0, number.begin);
  const auto trim = [&before] { before = before.substr(0, before.find_last_not_of(" \t\r\n") + 1); };
  trim();
  if (!before.ends_with(':')) return;
  before.remove_suffix(1);
  trim();
  const auto [at, error] = std::from_chars(begin, end, bits);
  if (!before.ends_with("seed") || error != std::errc() || at != end) return;
  d.message = fmt::format("the seed '{}' is beyond the integers of 64 bits with a sign", std::string_view(begin, end));
  d.fix = Fix{number, fmt::format("{}", static_cast<std::int64_t>(bits)), "write the number that has the same bits"};
}

/// A `)` or `]` that never comes is missed where its bracket was opened.
bool Builder::unclosed_bracket(std::string_view what, std::size_t at) {
  const bool ends = at >= text_.size() || std::string_view(";{})]").find(text_[at]) != std::string_view::npos;
  const std::vector<std::size_t> open = open_brackets(text_, at);
  if (!ends || open.empty() || closer_of(text_[open.back()]) != what[1]) return false;
  const std::size_t bracket = open.back();
  const bool other = at < text_.size() && (text_[at] == ')' || text_[at] == ']');
  Diagnostic d = finding(Code::unclosed, range_of(bracket, bracket + 1),
                         fmt::format("this '{}' is {}: {} comes first", text_[bracket],
                                     other ? "closed by no bracket of its kind" : "never closed", found_at(at)),
                         fmt::format("needs a {}", what));
  if (other) {
    d.fix = Fix{range_of(at, at + 1), std::string(what.substr(1, 1)), fmt::format("write {}", what)};
  } else {
    std::size_t before = at;
    while (before > 0 && (text_[before - 1] == ' ' || text_[before - 1] == '\n' || text_[before - 1] == '\t')) --before;
    std::string closers;
    for (auto i = open.rbegin(); i != open.rend(); ++i) closers += closer_of(text_[*i]);
    d.fix = Fix{range_of(before, before), closers, fmt::format("add the '{}'", closers)};
  }
  report(std::move(d));
  return true;
}

void Builder::mend_expected(Diagnostic& d, std::string_view what, std::size_t before, std::size_t at) const {
  const char found = text_[at];
  const char next = at + 1 < text_.size() ? text_[at + 1] : ' ';
  const SourceRange gap = range_of(before, before);
  const SourceRange sign = range_of(at, at + 1);
  const bool ends_operand = what == "';'" || what == "')'" || what == "']'" || what == "'}'";
  if (what == "':'" && found == '=') {
    d.fix = Fix{range_of(before, at + 1), ":", "write ':'"};
  } else if ((found == ':' || found == '=') && ends_with_statement(text_.substr(0, before))) {
    d.fix = Fix{range_of(before, at + 1), next == ' ' ? "" : " ", "leave it out"};
  } else if (what == "'='" && found == ':') {
    d.fix = Fix{range_of(before, at + 1), " =", "write '='"};
  } else if (what == "an expression" && found == '.' && is_digit(next)) {
    d.fix = Fix{range_of(at, at), "0", "write a digit before the point"};
  } else if (ends_operand && found == '=') {
    d.fix = Fix{sign, "==", "write '=='"};
  } else if (what == "';'" && (found == ')' || found == ']')) {
    d.fix = Fix{sign, "", "leave it out"};
  } else if (ends_operand && found == '.' && before == at && is_word(next) && !is_digit(next)) {
    std::size_t begin = at;
    while (begin > 0 && is_word(text_[begin - 1])) --begin;
    d.fix = Fix{range_of(begin, at + 1), "", "names have no parts: leave out what stands before the point"};
  } else if (what == "';'") {
    d.fix = Fix{gap, ";", "add the ';'"};
    std::size_t end = at;
    while (end < text_.size() && is_word(text_[end])) ++end;
    if (find_set(text_.substr(at, end - at))) {
      d.notes.push_back("sets are joined by '&' (in both), '|' (in either) and '-' (in the first alone)");
    }
  } else if (what == "')'" && (is_word(found) || found == '(' || found == '[')) {
    d.fix = Fix{gap, ",", "add the ','"};
  }
}

}  // namespace weft::dsl
