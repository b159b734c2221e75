// Messages for what the grammar could not read, and the places from which it goes on.

#include "dsl/build.h"
#include "dsl/diagnostics.h"
#include "dsl/scan.h"
#include "dsl/words.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::dsl {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/// The word, number or sign at `at`.
std::string_view token_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_word(text[end])) ++end;
  if (end > at) return text.substr(at, end - at);
  for (const OperatorInfo& op : operators()) {
    if (op.spelling.size() == 2 && text.substr(at).starts_with(op.spelling)) return text.substr(at, 2);
  }
  return text.substr(at, 1);
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

/// `pattern` and `const` are reserved, so one of them always begins something new.
bool begins_item(std::string_view text, std::size_t at) {
  if (at > 0 && is_word(text[at - 1])) return false;
  const std::string_view token = is_word(text[at]) ? token_at(text, at) : std::string_view();
  return is_one_of(WordKind::item, token);
}

/// A statement's word that is the first thing of its line.
bool begins_statement_line(std::string_view text, std::size_t at) {
  const std::size_t before = text.find_last_not_of(" \t\r", at - 1);
  if (at >= text.size() || at == 0 || before == std::string_view::npos || text[before] != '\n') return false;
  const auto& words = statement_words();
  return std::any_of(words.begin(), words.end(),
                     [token = token_at(text, at)](const StatementWord& row) { return row.name == token; });
}

/// The last token that ends at or before `at`: its end, and its text shortened for a message.
std::size_t end_before(std::string_view text, std::size_t at) {
  while (at > 0 && is_space(text[at - 1])) --at;
  return at;
}

std::string last_token(std::string_view text, std::size_t end) {
  std::size_t begin = end;
  while (begin > 0 && is_word(text[begin - 1])) --begin;
  if (begin == end && begin > 0) --begin;
  return std::string(text.substr(begin, std::min<std::size_t>(end - begin, 40)));
}

}  // namespace

bool Builder::full() const { return problems_.size() >= kMostFindings; }

void Builder::report(Diagnostic diagnostic) {
  if (!full()) problems_.push_back(std::move(diagnostic));
}

std::string Builder::found_at(std::size_t at) const {
  if (at >= text_.size()) return "the end of the file";
  return fmt::format("'{}'", token_at(text_, at).substr(0, 40));
}

void Builder::expected(std::string_view what, const char* where) {
  if (where == resumed_) return;
  const std::size_t at = skip_space(text_, static_cast<std::size_t>(where - text_.data()));
  if (text_.data() + at == resumed_) return;
  const std::size_t before = end_before(text_, at);
  const bool new_line = text_.substr(before, at - before).find('\n') != std::string_view::npos;
  const bool closes = what == "')'" || what == "']'";
  if (closes && unclosed_bracket(what, at)) return;
  if ((closes || what == "';'") && before > 0 && (new_line || at >= text_.size())) {
    // The next line is innocent: point behind what came last.
    const SourceRange place{static_cast<std::uint32_t>(before), static_cast<std::uint32_t>(before)};
    Diagnostic d = finding(Code::syntax, place, fmt::format("expected {} after '{}'", what, last_token(text_, before)));
    const std::string sign(what.substr(1, 1));
    d.fix = Fix{place, sign, fmt::format("add the '{}'", sign)};
    return report(std::move(d));
  }
  const std::size_t length = at < text_.size() ? token_at(text_, at).size() : 0;
  const SourceRange place{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + length)};
  Diagnostic d = finding(Code::syntax, place, fmt::format("expected {} but found {}", what, found_at(at)));
  if (length > 0) mend_expected(d, what, before, at);
  report(std::move(d));
}

void Builder::unknown_item(const char* where, const std::vector<std::string>& known, std::string_view what) {
  const auto at = static_cast<std::size_t>(where - text_.data());
  const std::string_view token = token_at(text_, at);
  const SourceRange place{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + token.size())};
  if (!is_word(token.front()) || (token.front() >= '0' && token.front() <= '9')) {
    return report(finding(Code::syntax, place, fmt::format("expected {} but found {}", what, found_at(at))));
  }
  Diagnostic d =
      finding(Code::unknown_statement, place, fmt::format("'{}' does not begin {}", token.substr(0, 40), what));
  if (const std::string near = nearest_word(token, known); !near.empty()) {
    d.fix = Fix{place, near, fmt::format("did you mean '{}'?", near)};
  } else {
    std::string list;
    for (const std::string& word : known) list += (list.empty() ? "" : ", ") + word;
    d.notes.push_back(fmt::format("{} begins with one of: {}", what, list));
  }
  report(std::move(d));
}

void Builder::unclosed(const char* where) {
  if (where == resumed_ && where < text_.data() + text_.size()) return;
  const std::size_t at = skip_space(text_, static_cast<std::size_t>(where - text_.data()));
  Diagnostic d = finding(Code::unclosed, opened_,
                         fmt::format("this '{{' is never closed: {} comes first", found_at(at)), "needs a '}'");
  const auto before = static_cast<std::uint32_t>(end_before(text_, at));
  d.fix = Fix{{before, before}, " }", "add the '}'"};
  report(std::move(d));
}

const char* Builder::resume_at(const char* where) {
  const auto at = static_cast<std::size_t>(where - text_.data());
  resumed_ = text_.data() + skip_space(text_, at);
  return resumed_;
}

const char* Builder::after_statement(const char* where) {
  std::size_t at = static_cast<std::size_t>(where - text_.data());
  if (const std::size_t next = skip_space(text_, at); begins_statement_line(text_, next)) {
    return resume_at(where);  // Only a `;` is missing.
  }
  int depth = 0;
  for (; at < text_.size() && !begins_item(text_, at); ++at) {
    const char c = text_[at];
    if (c == '{') ++depth;
    if (c == '}' && depth == 0) break;
    if ((c == '}' && --depth == 0) || (c == ';' && depth == 0)) {
      ++at;
      break;
    }
  }
  return resume_at(text_.data() + at);
}

const char* Builder::after_header(const char* where) {
  std::size_t at = static_cast<std::size_t>(where - text_.data());
  while (at < text_.size() && !begins_item(text_, at) && text_[at] != '{' && text_[at] != '}' && text_[at] != ';') ++at;
  return resume_at(text_.data() + at);
}

const char* Builder::after_item(const char* where) {
  std::size_t at = static_cast<std::size_t>(where - text_.data());
  while (at < text_.size() && !begins_item(text_, at)) ++at;
  return resume_at(text_.data() + at);
}

}  // namespace weft::dsl
