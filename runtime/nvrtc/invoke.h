#pragma once

#include "runtime/nvrtc/functions.h"

#include <string>
#include <vector>

namespace weft::nvrtc {

enum class Stage { cubin, ptx };

/// What NVRTC answered, uninterpreted: the same here and from a worker process.
struct Outcome {
  int status = kSuccess;
  std::string status_text;  ///< NVRTC's word for it
  std::string log;
  std::string output;  ///< the stage's bytes; empty where status is a failure
};

/// The first line of a log that complains; empty where none does.
std::string first_complaint(const std::string& log);

/// Does the outcome say that memory ran out? NVRTC has a status for it, but its front end only logs it. (Its assembler
/// speaks of it on standard error: then the outcome is a failure without a complaint.)
bool says_out_of_memory(const Outcome& outcome);

/// One call of NVRTC in this process. `text` must not hold a NUL.
Outcome invoke(const Functions& nvrtc, const std::string& text, const std::vector<std::string>& arguments, Stage stage);

}  // namespace weft::nvrtc
