#pragma once

#include "compiler/base/result.h"
#include "dsl/ast.h"
#include "dsl/fixes.h"

#include <string>

namespace weft::dsl {

/// Text to syntax tree. Linear in the text; 1 MiB, nesting 256 at most. Syntax errors are collected:
/// after one the parser goes on behind the next `;` or `}`. Fixes are tried with `examine`, else by reading alone.
Result<File> parse(const Source& source, const Examine& examine = {});

/// The one true layout of the file; comments survive. `format(parse(format(x))) == format(x)`.
std::string format(const File& file, const Source& source);

/// The tree as indented text with places: `--stage ast`.
std::string print(const File& file);

}  // namespace weft::dsl
