#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::tools {

enum class Command {
#define COMMAND(word, files, help) word,
#include "tools/commands.def"
};

/// The command line, parsed. Members come from options.def; what was not given is empty.
struct Options {
  Command command = Command::run;
  std::vector<std::string> files;  ///< or the words of `cache` and `bundle`

  using FLAG = bool;
  using TEXT = std::string;
  using TEXTS = std::vector<std::string>;
  using COUNT = std::optional<std::int64_t>;
  using COUNTS = std::vector<std::int64_t>;
  using NUMBER = std::optional<std::int64_t>;
  using SEED = std::optional<std::uint64_t>;
#define OPTION(kind, member, spelling, commands, help) kind member = {};
#include "tools/options.def"
};

/// The tables that the command line is parsed by, for those who describe it.
struct CommandRow {
  const char* word;
  const char* help;
  Command command;
  std::vector<std::string> words = {};  ///< that stand first, where it takes words of its own
};
struct OptionRow {
  const char* spelling;
  bool takes_value;
  const char* help;
  unsigned commands;                     ///< a bit each
  std::vector<std::string> values = {};  ///< all that it may have, where they are few
  bool is_of(const CommandRow& row) const { return (commands >> static_cast<unsigned>(row.command) & 1U) != 0; }
};
const std::vector<CommandRow>& command_rows();
const std::vector<OptionRow>& option_rows();

/// What parsing came to: options, or a status to end with (0 after --help and --version, 2 after a mistake; the
/// text has been printed).
struct Parsed {
  std::optional<Options> options = {};
  int status = 0;
};
Parsed parse_command_line(int argc, const char* const* argv);

/// What is wrong with the name of a target, whatever machine this is, with the nearest that there is; empty: nothing.
std::string wrong_target(const std::string& name);

/// `4k` = 4096, `1m` = 1048576, `1g` = 1073741824, plain digits; empty for anything else or what does not fit 64 bits.
std::optional<std::int64_t> parse_count(const std::string& text);

}  // namespace weft::tools
