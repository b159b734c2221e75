#pragma once

#include "compiler/base/result.h"

#include <string>
#include <vector>

namespace weft::emulate {

struct Finished {
  int status = 0;      ///< of the process; 128 + n where signal n ended it
  std::string output;  ///< both streams
};

/// The program of this name on PATH; with a slash it is a path, as for a shell. Empty where there is none.
std::string find_program(const std::string& name);

/// Runs a program and waits for it. `log` is a file of the caller's that takes its output.
Result<Finished> run(const std::vector<std::string>& words, const std::string& log);

}  // namespace weft::emulate
