#pragma once

#include <span>
#include <string>
#include <string_view>

/// What is told about the language by the command: a row for each word.
namespace weft::dsl {

struct Help {
  std::string_view topic;  ///< sets, functions, …: what `weft help` takes
  std::string_view word;
  std::string_view written;  ///< with its arguments
  std::string_view meaning;
  std::string_view example;  ///< statements of a pattern, or a whole text
};

/// The example as a whole text.
std::string example_text(const Help& row);

std::span<const Help> help();

}  // namespace weft::dsl
