#include "dsl/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::dsl {

Diagnostic& Findings::add(Code code, SourceRange range, std::string message, std::string label) {
  Diagnostic d = finding(code, range, std::move(message), std::move(label), shown_);
  failed_ = failed_ || d.severity == Severity::error;
  if (full()) return scratch_ = std::move(d);
  found_.push_back(std::move(d));
  return found_.back();
}

std::vector<Diagnostic> Findings::take() && {
  std::stable_sort(found_.begin(), found_.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.range.begin < b.range.begin; });
  return std::move(found_);
}

std::string Findings::whole(SourceRange range) const {
  return std::string(source_.substr(range.begin, range.end - range.begin));
}

std::string Findings::text(SourceRange range) const {
  constexpr std::uint32_t kLongest = 40;
  if (range.end - range.begin <= kLongest) return whole(range);
  return whole({range.begin, range.begin + kLongest}) + "…";
}

std::string Findings::embedded(const std::string& text, SourceRange range) const {
  constexpr std::string_view kBlanks = " \t\r\n", kOperators = "&|-!+*";
  const std::size_t before =
      range.begin == 0 ? std::string_view::npos : source_.find_last_not_of(kBlanks, range.begin - 1);
  const std::size_t after = source_.find_first_not_of(kBlanks, range.end);
  const bool beside =
      (before != std::string_view::npos && kOperators.find(source_[before]) != std::string_view::npos) ||
      (after != std::string_view::npos && kOperators.find(source_[after]) != std::string_view::npos);
  return beside ? "(" + text + ")" : text;
}

SourceRange Findings::find_sign(SourceRange range, std::string_view sign) const {
  for (std::uint32_t at = range.begin; at < range.end; ++at) {
    if (source_[at] == '#') {
      at = static_cast<std::uint32_t>(std::min<std::size_t>(source_.find('\n', at), range.end));
    } else if (source_.substr(at).starts_with(sign)) {
      return {at, at + static_cast<std::uint32_t>(sign.size())};
    }
  }
  return {range.end, range.end};
}

void suggest(Diagnostic& d, const std::string& word, SourceRange range, const std::vector<std::string>& candidates) {
  const std::string near = nearest_word(word, candidates);
  if (!near.empty()) d.fix = Fix{range, near, fmt::format("did you mean '{}'?", near)};
}

}  // namespace weft::dsl
