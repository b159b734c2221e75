#pragma once

#include "compiler/base/diagnostic.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft::dsl {

/// What can be wrong with a text; one enumerator a row of diagnostics.def.
enum class Code {
#define WEFT_DIAGNOSTIC(name, ...) name,
#include "dsl/diagnostics.def"
};

struct CodeInfo {
  std::string_view text;                    ///< `E0101`; the letter is the severity
  std::string_view title;                   ///< what findings with this code have in common
  std::string_view meaning;                 ///< for those who ask
  std::string_view wrong;                   ///< a text that gets the code; empty where none is short
  std::string_view right;                   ///< the same, set right
  std::optional<Code> code = std::nullopt;  ///< none of the planner's
};

/// All of them, in the order of the table.
std::span<const CodeInfo> codes();

/// What shows that something is wrong.
enum class Shown {
  by_text,    ///< whatever the parameters are
  by_values,  ///< of parameters; the code says so where it makes a difference
};

std::string_view text_of(Code code, Shown shown = Shown::by_text);

/// A finding with the code's text and severity. `message` is one sentence without a full stop.
Diagnostic finding(Code code, SourceRange range, std::string message, std::string label = {},
                   Shown shown = Shown::by_text);

/// No run reports more findings than this.
inline constexpr std::size_t kMostFindings = 100;

}  // namespace weft::dsl
