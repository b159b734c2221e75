#pragma once

#include <span>
#include <string>
#include <string_view>

/// What is told about the language by the command: a row for each word, and one for each code of a diagnostic.
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

struct Explanation {
  std::string_view code;
  std::string_view meaning;
  std::string_view wrong;  ///< a text that gets the code; empty where none is short
  std::string_view right;
};

/// What the codes mean that reading and checking give.
std::span<const Explanation> explanations();

}  // namespace weft::dsl
