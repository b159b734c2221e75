#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// Half-open byte range in a source text. Sources are at most 1 MiB, so 32 bits do.
struct SourceRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  bool operator==(const SourceRange&) const = default;
};

/// A text with the name it is shown under (a path, or `<stdin>`).
struct Source {
  std::string name;
  std::string text;
};

enum class Severity { warning, error };

/// Replacing `range` by `replacement` mends the text; shown only after it was checked to work.
struct Fix {
  SourceRange range;
  std::string replacement;
  std::string message;  ///< imperative, lower case: `include the diagonal`
};

/// One thing wrong with the user's text, in terms of the text.
struct Diagnostic {
  Severity severity = Severity::error;
  std::string code;        ///< `E0103`, `W0214`; `weft check --explain E0103`
  SourceRange range;       ///< what to underline
  std::string message;     ///< one sentence without a full stop
  std::string label = {};  ///< printed behind the carets; may be empty
  struct Place {
    SourceRange range;
    std::string label;
  };
  std::vector<Place> places = {};       ///< further ranges, such as an earlier definition
  std::vector<std::string> notes = {};  ///< `= note:` lines
  std::optional<Fix> fix = {};
};

}  // namespace weft
