#include "dsl/fixes.h"

#include <algorithm>
#include <cstddef>

namespace weft::dsl {
namespace {

constexpr std::size_t kReexaminedBytes = std::size_t{4} << 20;

bool is_error(const Diagnostic& d) { return d.severity == Severity::error; }

/// The text could not even be read.
bool is_unread(const std::vector<Diagnostic>& found) {
  return std::any_of(found.begin(), found.end(), [](const Diagnostic& d) { return d.code.starts_with("E01"); });
}

/// An error in what the fix put there: it only made another mistake of the old one.
bool hits(const std::vector<Diagnostic>& found, const Fix& fix) {
  const std::uint32_t begin = fix.range.begin;
  const auto end = begin + static_cast<std::uint32_t>(fix.replacement.size());
  return std::any_of(found.begin(), found.end(), [&](const Diagnostic& d) {
    return is_error(d) && d.range.begin < end && d.range.end > begin && d.range.end - d.range.begin <= end - begin;
  });
}

std::ptrdiff_t with_code(const std::vector<Diagnostic>& found, const std::string& code) {
  return std::count_if(found.begin(), found.end(), [&](const Diagnostic& d) { return d.code == code; });
}

Source mended(const Source& source, const Fix& fix) {
  Source copy = source;
  copy.text.replace(fix.range.begin, fix.range.end - fix.range.begin, fix.replacement);
  return copy;
}

}  // namespace

void keep_working_fixes(std::vector<Diagnostic>& diagnostics, const Source& source, const Examine& examine) {
  std::size_t budget = kReexaminedBytes;
  for (Diagnostic& d : diagnostics) {
    if (!d.fix) continue;
    if (source.text.size() > budget) {
      d.fix.reset();
      continue;
    }
    budget -= source.text.size();
    const std::vector<Diagnostic> left = examine(mended(source, *d.fix));
    const bool works = with_code(left, d.code) < with_code(diagnostics, d.code) && !hits(left, *d.fix) &&
                       (!is_unread(left) || is_unread(diagnostics));
    if (!works) d.fix.reset();
  }
}

}  // namespace weft::dsl
