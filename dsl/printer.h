#pragma once

#include "dsl/ast.h"

#include <string>

namespace weft::dsl {

enum class Places { shown, hidden };

/// The tree as text: a line for each definition, statement and part of one; expressions in prefix
/// form. Without places, two texts that mean the same print the same.
std::string print_tree(const File& file, Places places);

/// The language's name of a parameter type: `[int]`.
const char* to_string(ParamType type);

}  // namespace weft::dsl
