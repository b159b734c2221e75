#pragma once

#include "dsl/ast.h"

#include <string>
#include <vector>

namespace weft::dsl {

inline constexpr std::size_t kLargestSource = std::size_t{1} << 20;
inline constexpr int kDeepestNesting = 256;

/// What is known of a text before its grammar is looked at.
struct Scan {
  std::string text;  ///< the source with every comment (and a byte-order mark) blanked; offsets are the source's
  std::vector<Comment> comments;
  std::vector<Diagnostic> problems;  ///< sizes, characters, nesting; with any of them the text must not be parsed
};

/// One pass over the bytes. Guards everything after it: the grammar recurses on brackets only, and
/// here they are counted.
Scan scan(const Source& source);

/// Length of the well-formed UTF-8 sequence at `text[at]`, 0 if there is none.
std::size_t utf8_length(std::string_view text, std::size_t at);

}  // namespace weft::dsl
