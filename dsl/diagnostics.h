#pragma once

#include "compiler/base/diagnostic.h"

#include <span>
#include <string>
#include <string_view>

namespace weft::dsl {

/// What can be wrong with a text; one enumerator a row of diagnostics.def.
enum class Code {
#define WEFT_DIAGNOSTIC(name, code, title) name,
#include "dsl/diagnostics.def"
};

struct CodeInfo {
  Code code;
  std::string_view text;   ///< `E0101`; the letter is the severity
  std::string_view title;  ///< what findings with this code have in common
};

std::span<const CodeInfo> codes();
std::string_view text_of(Code code);

/// A finding with the code's text and severity. `message` is one sentence without a full stop.
Diagnostic finding(Code code, SourceRange range, std::string message, std::string label = {});

/// No run reports more findings than this.
inline constexpr std::size_t kMostFindings = 100;

}  // namespace weft::dsl
