#include "compiler/target/target.h"
#include "tools/commands/commands.h"
#include "tools/json.h"

#include <weft/weft.h>

#include <fmt/ranges.h>

#include <algorithm>

/// What shells and `man` know of the command, from the tables that it is parsed by.
namespace weft::tools {

namespace {

std::string replaced(std::string text, char what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, 1, by);
  return text;
}

/// In single quotes of bash and zsh.
std::string quoted(const std::string& text) { return "'" + replaced(text, '\'', "'\\''") + "'"; }

std::vector<std::string> values_of(const OptionRow& option) {
  auto words = option.values;
  if (std::string_view(option.spelling) == "--target") {
    for (const auto& target : known_targets()) words.push_back(target.name);
    words.emplace_back("cuda");
  }
  return words;
}

std::string bash() {
  std::string values, options, words, commands;
  std::vector<std::string> known;
  for (const auto& option : option_rows()) {
    const auto list = values_of(option);
    if (list.empty() || std::find(known.begin(), known.end(), option.spelling) != known.end()) continue;
    known.emplace_back(option.spelling);
    values += fmt::format("    {}) words='{}' ;;\n", option.spelling, fmt::join(list, " "));
  }
  for (const auto& command : command_rows()) {
    commands += (commands.empty() ? "" : " ") + std::string(command.word);
    options += fmt::format("    {}) words='--help", command.word);
    for (const auto& option : option_rows()) {
      if (option.is_of(command)) options += " " + std::string(option.spelling);
    }
    options += "' ;;\n";
    if (!command.words.empty())
      words += fmt::format("    {}) words='{}' ;;\n", command.word, fmt::join(command.words, " "));
  }
  return fmt::format(R"(# Completion of `weft` for bash, written by `weft completion bash`.
_weft() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{commands} --help --version' -- "$word"))
    return
  fi
  case "$before" in
{values}  esac
  if [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    return
  fi
  case "$word" in
  -*) case "${{COMP_WORDS[1]}}" in
{options}    esac ;;
  *) [ "$COMP_CWORD" -eq 2 ] && case "${{COMP_WORDS[1]}}" in
{words}    esac ;;
  esac
  # Where there is nothing to say, bash completes names of files.
  [ -z "$words" ] || COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -o bashdefault -F _weft weft
)",
                     fmt::arg("commands", commands), fmt::arg("values", values), fmt::arg("options", options),
                     fmt::arg("words", words));
}

std::string zsh() {
  std::string commands, values, options, words;
  for (const auto& command : command_rows()) {
    commands += fmt::format("    {}\n", quoted(fmt::format("{}:{}", command.word, command.help)));
    options += fmt::format("  {})\n    options=(\n", command.word);
    for (const auto& option : option_rows()) {
      if (!option.is_of(command)) continue;
      options += fmt::format("      {}\n", quoted(fmt::format("{}:{}", option.spelling, option.help)));
      if (const auto list = values_of(option); !list.empty()) {
        values +=
            fmt::format("  {}:{}) compadd -- {}; return ;;\n", command.word, option.spelling, fmt::join(list, " "));
      }
    }
    options += "    ) ;;\n";
    if (!command.words.empty()) {
      words += fmt::format("  {}) (( CURRENT == 3 )) && compadd -- {} && return ;;\n", command.word,
                           fmt::join(command.words, " "));
    }
  }
  return fmt::format(R"(#compdef weft
# Completion of `weft` for zsh, written by `weft completion zsh`.
_weft() {{
  local -a commands options
  commands=(
{commands}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case "$words[2]:$words[CURRENT-1]" in
{values}  esac
  case "$words[2]" in
{options}  esac
  if [[ "$words[CURRENT]" == -* ]]; then
    _describe -o option options
    return
  fi
  case "$words[2]" in
{words}  esac
  _files
}}
_weft "$@"
)",
                     fmt::arg("commands", commands), fmt::arg("values", values), fmt::arg("options", options),
                     fmt::arg("words", words));
}

std::string fish() {
  const auto text = [](const std::string& plain) {
    return "'" + replaced(replaced(plain, '\\', "\\\\"), '\'', "\\'") + "'";
  };
  std::string out = "# Completion of `weft` for fish, written by `weft completion fish`.\n";
  for (const auto& command : command_rows()) {
    out += fmt::format("complete -c weft -n __fish_use_subcommand -f -a {} -d {}\n", command.word, text(command.help));
    if (!command.words.empty()) {
      out += fmt::format("complete -c weft -n '__fish_seen_subcommand_from {}' -a '{}'\n", command.word,
                         fmt::join(command.words, " "));
    }
    for (const auto& option : option_rows()) {
      if (!option.is_of(command)) continue;
      const std::string_view spelling = option.spelling;
      const auto name = spelling.starts_with("--") ? fmt::format("-l {}", spelling.substr(2))
                                                   : fmt::format("-s {}", spelling.substr(1));
      const auto list = values_of(option);
      const auto value = !list.empty()        ? fmt::format(" -x -a '{}'", fmt::join(list, " "))
                         : option.takes_value ? std::string(" -r")
                                              : std::string();
      out += fmt::format("complete -c weft -n '__fish_seen_subcommand_from {}' {}{} -d {}\n", command.word, name, value,
                         text(option.help));
    }
  }
  return out;
}

std::string troff(const std::string& text) {
  auto out = replaced(replaced(text, '\\', "\\e"), '-', "\\-");
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string manual() {
  std::string commands, options;
  for (const auto& command : command_rows()) {
    commands += fmt::format(".TP\n.B {}\n{}\n", command.word, troff(command.help));
  }
  std::string before;
  for (const auto& option : option_rows()) {
    std::vector<std::string> of;
    for (const auto& command : command_rows()) {
      if (option.is_of(command)) of.emplace_back(command.word);
    }
    const auto all =
        of.size() == command_rows().size() ? std::string("all commands") : fmt::format("{}", fmt::join(of, ", "));
    options += fmt::format(".TP\n.B {}\n{} ({})\n", troff(option.spelling), troff(option.help), all);
  }
  return fmt::format(R"(.\" Written by `weft completion man`.
.TH WEFT 1 "" "weft {version}" "User Commands"
.SH NAME
weft \- compiles attention patterns, written as text, into kernels
.SH SYNOPSIS
.B weft
.I COMMAND
.RI [ FILE ...]
.RI [ OPTION ...]
.SH COMMANDS
A FILE is a text of patterns; \- is standard input.
{commands}.SH OPTIONS
{options}.SH EXIT STATUS
0 done; 1 the input is wrong; 2 the command line is wrong; 3 the environment lacks something; 4 a defect of Weft;
130 interrupted.
.SH ENVIRONMENT
WEFT_CACHE_DIR: where the kernel store is. WEFT_LLVM, WEFT_NVRTC, WEFT_CUDA_DRIVER, WEFT_MPI: the libraries to use.
NO_COLOR: no colour.
.SH SEE ALSO
docs/command.md has the keys of \-\-json, docs/language.md the language.
)",
                     fmt::arg("version", version()), fmt::arg("commands", commands), fmt::arg("options", options));
}

}  // namespace

int command_completion(const Options& options, const Console& console) {
  const auto word = options.files.size() == 1 ? options.files[0] : std::string();
  std::string text;
  if (word == "bash") text = bash();
  if (word == "zsh") text = zsh();
  if (word == "fish") text = fish();
  if (word == "man") text = manual();
  if (text.empty()) return console.usage("completion: expected bash, zsh, fish or man");
  if (console.json())
    console.print("{}\n", json_text(Json{{"for", word}, {"text", text}}, -1));
  else
    console.write(text);
  return kDone;
}

}  // namespace weft::tools
