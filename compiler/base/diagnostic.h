#pragma once

#include <weft/diagnostic.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct LineColumn {
  std::size_t line;    ///< 1-based
  std::size_t column;  ///< 1-based, in code points
};

LineColumn locate(const Source& source, std::uint32_t offset);
std::string_view line_text(const Source& source, std::size_t line);

/// The diagnostic as a terminal shows it: header, place, underlined source line, notes, fix.
/// Ends with a newline. Tabs count as one column; `color` adds ANSI escapes.
std::string render(const Diagnostic& diagnostic, const Source& source, bool color = false);

/// The nearest of `candidates` to `word`, or empty when none is near (edit distance over a third).
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace weft
