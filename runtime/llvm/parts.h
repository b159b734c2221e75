#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::llvm {

/// A module's text as so many, each with some of its functions and declarations of the others, that take about the same
/// time to compile; as it is where it has too few functions, defines data or is short. What was internal is hidden
/// then, so that objects can be joined. The same text gives the same parts.
///
/// For texts as Weft emits them: a function begins with a line `define` and ends with a line `}`.
std::vector<std::string> split(std::string_view ir_text, int parts);

}  // namespace weft::llvm
