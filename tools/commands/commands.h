#pragma once

#include "tools/console.h"
#include "tools/options.h"

namespace weft::tools {

// One function a command, each in a file of its name. They return the exit status.
#define COMMAND(word, files, help) int command_##word(const Options& options, const Console& console);
#include "tools/commands.def"

}  // namespace weft::tools
