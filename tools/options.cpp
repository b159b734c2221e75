#include "tools/options.h"

#include "compiler/base/diagnostic.h"

#include <fmt/format.h>
#include <weft/weft.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>

namespace weft::tools {

namespace {

constexpr unsigned bit(Command command) { return 1U << static_cast<unsigned>(command); }

constexpr unsigned kRun = bit(Command::run), kCheck = bit(Command::check), kFmt = bit(Command::fmt),
                   kDraw = bit(Command::draw), kExplain = bit(Command::explain), kEmit = bit(Command::emit),
                   kBench = bit(Command::bench), kTune = bit(Command::tune), kBundle = bit(Command::bundle),
                   kCache = bit(Command::cache), kTargets = bit(Command::targets), kDoctor = bit(Command::doctor);
constexpr unsigned kPatterns = kRun | kDraw | kExplain | kEmit | kBench | kTune;
constexpr unsigned kSized = kRun | kExplain | kBench | kTune;
constexpr unsigned kEngine = kRun | kExplain | kEmit | kBench | kTune | kDoctor;
constexpr unsigned kAll = ~0U;

enum class Files { one, many, words, none };

CLI::Validator count_validator(bool may_be_zero) {
  return CLI::Validator(
      [may_be_zero](std::string& text) {
        const auto value = parse_count(text);
        if (value && (*value > 0 || may_be_zero)) {
          text = std::to_string(*value);
          return std::string();
        }
        return fmt::format("'{}' is not a whole number of at least {} (such as 512, 4k, 1m)", text,
                           may_be_zero ? 0 : 1);
      },
      "");
}

// One overload per kind of options.def.
void add(CLI::App& app, const char* spelling, bool& to, const char* help) { app.add_flag(spelling, to, help); }
void add(CLI::App& app, const char* spelling, std::string& to, const char* help) {
  app.add_option(spelling, to, help)->type_name("");
}
void add(CLI::App& app, const char* spelling, std::vector<std::string>& to, const char* help) {
  // One value an occurrence: otherwise the option would swallow the file behind it.
  app.add_option(spelling, to, help)->type_name("")->type_size(1)->allow_extra_args(false);
}
void add(CLI::App& app, const char* spelling, std::optional<std::int64_t>& to, const char* help) {
  const std::string name = spelling;
  const bool may_be_zero = name == "--seed" || name == "--dropout-seed" || name == "--head";
  app.add_option(spelling, to, help)->type_name("")->transform(count_validator(may_be_zero));
}
void add(CLI::App& app, const char* spelling, std::vector<std::int64_t>& to, const char* help) {
  app.add_option(spelling, to, help)
      ->type_name("")
      ->type_size(1)
      ->allow_extra_args(false)
      ->delimiter(',')
      ->transform(count_validator(false));
}

void add_files(CLI::App& app, Files kind, Options& options) {
  if (kind == Files::none) return;
  auto* files = app.add_option("FILE", options.files,
                               kind == Files::words ? "what to do" : "a .weft file, or - for standard input");
  files->type_name("");
  if (kind == Files::many) files->required();
}

void add_options(CLI::App& app, Command command, Options& options) {
#define OPTION(kind, member, spelling, commands, help) \
  if (((commands)&bit(command)) != 0) add(app, spelling, options.member, help);
#include "tools/options.def"
}

/// What CLI11 cannot say: values with a closed list of words, and one file exactly.
std::string mistake(const Options& options, Files files) {
  const auto one_of = [](const std::string& option, const std::string& value, std::vector<std::string> words) {
    if (value.empty() || std::find(words.begin(), words.end(), value) != words.end()) return std::string();
    std::string list;
    for (const auto& word : words) list += (list.empty() ? "" : ", ") + word;
    return fmt::format("{} {}: expected one of {}", option, value, list);
  };
  for (auto found :
       {one_of("--color", options.color, {"auto", "always", "never"}),
        one_of("--layout", options.layout, {"bnhd", "bhnd"}), one_of("--against", options.against, {"dense"}),
        one_of("--dtype", options.dtype, {"f32", "f16", "bf16", "f64"}),
        one_of("--stage", options.stage,
               {"ast", "pattern", "plan", "cuda", "ptx", "cubin", "sass", "llvm", "asm", "object"})}) {
    if (!found.empty()) return found;
  }
  if (files == Files::one && options.files.size() > 1) return "one FILE at a time";
  if (files == Files::one && options.files.empty() && options.from.empty()) return "FILE is missing";
  if (options.command != Command::bench && options.tokens.size() > 1) return "--tokens takes a list in `bench` only";
  return {};
}

/// CLI11 would only say that some command is missing.
std::string unknown_command(int argc, const char* const* argv) {
  const std::vector<std::string> words = {
#define COMMAND(word, kind, text) #word,
#include "tools/commands.def"
  };
  if (argc < 2 || argv[1][0] == '-' || std::find(words.begin(), words.end(), argv[1]) != words.end()) return {};
  const auto near = nearest_word(argv[1], words);
  return fmt::format("there is no command '{}'{}", argv[1], near.empty() ? "" : "; did you mean '" + near + "'?");
}

int say_usage(const std::string& text, const char* where) {
  fmt::print(stderr, "weft: {}\nSee {} --help.\n", text, where);
  return 2;
}

}  // namespace

std::optional<std::int64_t> parse_count(const std::string& text) {
  std::size_t digits = 0;
  std::int64_t value = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
        __builtin_add_overflow(value, text[digits] - '0', &value)) {
      return std::nullopt;
    }
    ++digits;
  }
  const auto unit = text.substr(digits);
  if (digits == 0 || (!unit.empty() && unit != "k" && unit != "m")) return std::nullopt;
  const std::int64_t factor = unit.empty() ? 1 : unit == "k" ? 1024 : 1024 * 1024;
  if (__builtin_mul_overflow(value, factor, &value)) return std::nullopt;
  return value;
}

Parsed parse_command_line(int argc, const char* const* argv) {
  if (const auto text = unknown_command(argc, argv); !text.empty()) return {.status = say_usage(text, "weft")};
  CLI::App app("Compiles attention patterns, written as text, into kernels.", "weft");
  app.set_version_flag("--version", std::string("weft ") + version());
  app.require_subcommand(1);
  Options options;
  Files files = Files::none;
#define COMMAND(word, kind, text)                \
  {                                              \
    auto* sub = app.add_subcommand(#word, text); \
    add_files(*sub, Files::kind, options);       \
    add_options(*sub, Command::word, options);   \
    sub->callback([&] {                          \
      options.command = Command::word;           \
      files = Files::kind;                       \
    });                                          \
  }
#include "tools/commands.def"
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error);
      return {.status = 0};
    }
    return {.status = say_usage(error.what(), "weft, or weft COMMAND")};
  }
  if (const auto text = mistake(options, files); !text.empty()) {
    return {.status = say_usage(text, "weft COMMAND")};
  }
  return {.options = std::move(options)};
}

}  // namespace weft::tools
