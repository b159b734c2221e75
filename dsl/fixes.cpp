#include "dsl/fixes.h"

#include <algorithm>
#include <cstddef>

namespace weft::dsl {
namespace {

constexpr std::size_t kReexaminedBytes = std::size_t{4} << 20;

std::ptrdiff_t errors(const std::vector<Diagnostic>& found) {
  return std::count_if(found.begin(), found.end(), [](const Diagnostic& d) { return d.severity == Severity::error; });
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
    const bool works = with_code(left, d.code) < with_code(diagnostics, d.code) && errors(left) <= errors(diagnostics);
    if (!works) d.fix.reset();
  }
}

}  // namespace weft::dsl
