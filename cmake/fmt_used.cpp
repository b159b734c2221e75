// Every kind of use that Weft makes of {fmt}: links where fmt.cpp is all that is needed besides.
#include <fmt/args.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

int main(int count, char** words) {
  fmt::dynamic_format_arg_store<fmt::format_context> arguments;
  arguments.push_back(fmt::arg("word", words[0]));
  std::string text = fmt::vformat("{word}", arguments);
  text += fmt::format("{} {:>6} {:x} {:.3g} {:.9g} {}", count, count, count, 1.0 / count, 1.0F / count, count > 1);
  text += fmt::format("{}", fmt::join(std::vector<int>{count}, ", "));
  fmt::format_to(std::back_inserter(text), "{:L}", count);
  try {
    text += fmt::format(fmt::runtime(text), words[0]);
  } catch (const fmt::format_error&) {
    return 1;
  }
  return text.empty();
}
