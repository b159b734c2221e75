#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::llvm {

/// A module's text as several, each with some of its functions, which can be compiled at once and their objects joined;
/// as it is where it defines data or is short. A part ends where the module's next section begins (a line `;; TITLE`
/// outside of functions) or where it has become long, and says of the rest only what it calls: so sections that two
/// modules share are the same parts. What was internal is hidden.
///
/// For texts as Weft emits them: a function begins with a line `define` and ends with a line `}`.
std::vector<std::string> split(std::string_view ir_text);

}  // namespace weft::llvm
