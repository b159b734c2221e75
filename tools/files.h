#pragma once

#include "compiler/base/result.h"

#include <string>
#include <string_view>

namespace weft::tools {

/// The text of a .weft file, `-` for standard input. Reads at most a byte over the language's limit, so that the
/// parser can refuse what is too long.
Result<Source> read_source(const std::string& path);

/// A whole small file, such as a plan's text.
Result<std::string> read_text(const std::string& path);

/// An error about what is in a file, with the file's name.
template <typename T>
Result<T> named(Result<T> result, const std::string& path) {
  if (result) return result;
  auto error = std::move(result).error();
  error.message = path + ": " + error.message;
  return error;
}

/// Writes `bytes` to `path`: the file appears whole or not at all. `-` is standard output.
Status write_file(const std::string& path, std::string_view bytes);

/// Interrupting the command removes the temporary file that is being written, and ends with status 130.
void install_interrupt_handler();

}  // namespace weft::tools
