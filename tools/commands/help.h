#pragma once

#include "tools/console.h"

#include <string>

namespace weft::tools {

/// `check --explain CODE`: what it means, what gets it and what does not. Returns the exit status.
int explain_code(const std::string& code, const Console& console);

}  // namespace weft::tools
