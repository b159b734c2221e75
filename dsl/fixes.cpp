#include "dsl/fixes.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace weft::dsl {
namespace {

constexpr std::size_t kReexaminedBytes = std::size_t{4} << 20;

bool is_error(const Diagnostic& d) { return d.severity == Severity::error; }

bool is_of_reading(const Diagnostic& d) { return d.code.starts_with("E01"); }

/// What keeps a text from being read must become less where that is mended, and may not begin elsewhere.
bool reads_better(const std::vector<Diagnostic>& before, const std::vector<Diagnostic>& after, const Diagnostic& d) {
  const auto old = std::count_if(before.begin(), before.end(), is_of_reading);
  const auto left = std::count_if(after.begin(), after.end(), is_of_reading);
  return is_of_reading(d) ? left < old : left <= old;
}

/// An error in what the fix put there: it only made another mistake of the old one.
bool hits(const std::vector<Diagnostic>& found, SourceRange place) {
  const auto [begin, end] = place;
  return std::any_of(found.begin(), found.end(), [begin = begin, end = end](const Diagnostic& d) {
    return is_error(d) && d.range.begin < end && d.range.end > begin && d.range.end - d.range.begin <= end - begin;
  });
}

std::ptrdiff_t with_code(const std::vector<Diagnostic>& found, const std::string& code) {
  return std::count_if(found.begin(), found.end(), [&](const Diagnostic& d) { return d.code == code; });
}

/// The same fix in the words for sets where it has those for booleans, and the like: tried when it does not work.
std::vector<Fix> candidates(const Fix& fix) {
  struct Pair {
    std::string_view from, to;
  };
  static constexpr Pair kOthers[] = {{"and", "&"},      {"or", "|"},        {"!", "not "},      {"not ", "!"},
                                     {":", " =="},      {": ", " == "},     {":", ": int ="},   {":", ": real ="},
                                     {":", ": bool ="}, {":", ": [int] ="}, {":", ": [real] ="}};
  std::vector<Fix> out{fix};
  for (const Pair& other : kOthers) {
    if (fix.replacement != other.from) continue;
    const std::size_t first = other.to.find_first_not_of(' ');
    const std::string_view shown = other.to.substr(first, other.to.find_last_not_of(' ') + 1 - first);
    out.push_back({fix.range, std::string(other.to), "write '" + std::string(shown) + "'"});
  }
  return out;
}

/// From behind the last `;` or brace before `begin` up to the next one behind `end`.
SourceRange statement_around(std::string_view text, std::size_t begin, std::size_t end) {
  const std::size_t first = begin == 0 ? std::string_view::npos : text.find_last_of(";{}", begin - 1);
  return {first == std::string_view::npos ? 0 : static_cast<std::uint32_t>(first + 1),
          static_cast<std::uint32_t>(std::min(text.find_first_of(";{}", end), text.size()))};
}

/// A text with the same thing mended wherever it stands in the statement of `fix`: `a && b && c` is one mistake.
struct Mended {
  Source source;
  SourceRange place;      ///< of the replacement of `fix`
  SourceRange statement;  ///< where nothing new may be wrong
};

enum class Others { stay, are_mended };

Mended mended(const Source& source, const std::vector<Diagnostic>& diagnostics, const Diagnostic& d, const Fix& fix,
              Others others) {
  const SourceRange around = statement_around(source.text, fix.range.begin, fix.range.end);
  std::vector<Fix> fixes{fix};
  for (const Diagnostic& other : diagnostics) {
    if (&other == &d || !other.fix) continue;
    const SourceRange range = other.fix->range;
    const bool alike = other.code == d.code && other.message == d.message &&
                       other.fix->replacement == d.fix->replacement && range.begin >= around.begin &&
                       range.end <= around.end;
    const bool apart = range.end <= fix.range.begin || range.begin >= fix.range.end;
    if (alike) fixes.push_back({range, fix.replacement, {}});
    if (!alike && apart && others == Others::are_mended) fixes.push_back(*other.fix);
  }
  std::stable_sort(fixes.begin(), fixes.end(),
                   [](const Fix& a, const Fix& b) { return a.range.begin > b.range.begin; });
  Mended out{source, {fix.range.begin, fix.range.begin}, {}};
  std::size_t end_of_last = source.text.size() + 1;
  for (const auto& [range, replacement, message] : fixes) {
    if (range.end > end_of_last) continue;
    end_of_last = range.begin;
    out.source.text.replace(range.begin, range.end - range.begin, replacement);
    if (range.begin >= fix.range.begin) continue;
    const auto shift = static_cast<std::uint32_t>(replacement.size()) - (range.end - range.begin);
    out.place.begin += shift;
  }
  out.place.end = out.place.begin + static_cast<std::uint32_t>(fix.replacement.size());
  out.statement = statement_around(out.source.text, out.place.begin, out.place.end);
  return out;
}

/// An error in the statement that was not there before: the text says something else now.
bool spoils(const std::vector<Diagnostic>& before, const std::vector<Diagnostic>& after, SourceRange statement) {
  return std::any_of(after.begin(), after.end(), [&](const Diagnostic& d) {
    if (!is_error(d) || d.range.begin > statement.end || d.range.end < statement.begin) return false;
    return std::none_of(before.begin(), before.end(),
                        [&](const Diagnostic& old) { return old.code == d.code && old.message == d.message; });
  });
}

}  // namespace

void keep_working_fixes(std::vector<Diagnostic>& diagnostics, const Source& source, const Examine& examine) {
  std::size_t budget = kReexaminedBytes;
  const auto works = [&](const Diagnostic& d, const Fix& fix) {
    budget -= source.text.size();
    const Mended text = mended(source, diagnostics, d, fix, Others::stay);
    const std::vector<Diagnostic> left = examine(text.source);
    if (with_code(left, d.code) >= with_code(diagnostics, d.code) || hits(left, text.place)) return false;
    if (!reads_better(diagnostics, left, d) || spoils(diagnostics, left, text.statement)) return false;
    // What else keeps the text from being read keeps it from being checked, too.
    if (std::none_of(left.begin(), left.end(), is_of_reading) || source.text.size() > budget) return true;
    budget -= source.text.size();
    const Mended whole = mended(source, diagnostics, d, fix, Others::are_mended);
    const std::vector<Diagnostic> found = examine(whole.source);
    return std::any_of(found.begin(), found.end(), is_of_reading) ||
           (!hits(found, whole.place) && !spoils(diagnostics, found, whole.statement));
  };
  std::vector<std::optional<Fix>> kept(diagnostics.size());
  for (std::size_t i = 0; i < diagnostics.size(); ++i) {
    if (!diagnostics[i].fix) continue;
    for (const Fix& fix : candidates(*diagnostics[i].fix)) {
      if (source.text.size() > budget) break;
      if (!works(diagnostics[i], fix)) continue;
      kept[i] = fix;
      break;
    }
  }
  for (std::size_t i = 0; i < diagnostics.size(); ++i) {
    Diagnostic& d = diagnostics[i];
    // The nearest word is worth naming, also where something else is wrong with its use.
    const bool guess = d.fix && !kept[i] && d.fix->message.starts_with("did you mean");
    if (guess) d.notes.push_back(d.fix->message);
    d.fix = std::move(kept[i]);
  }
}

}  // namespace weft::dsl
