#pragma once

#include <string>

namespace weft::nvrtc {

/// Keeps a text that NVRTC rejected, followed by the log as comments, for a report: a file in the temporary folder,
/// whole or not at all, named by its contents, so that the same defect leaves one file however often it happens.
/// Gives a sentence for an error's notes: where it is, or why it could not be kept.
std::string keep_defect(const std::string& text, const std::string& log);

}  // namespace weft::nvrtc
