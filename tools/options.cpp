#include "tools/options.h"

#include "tools/ring_option.h"

#include "compiler/base/diagnostic.h"
#include "runtime/engine/destination.h"
#include "tools/console.h"
#include "tools/failure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <weft/weft.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <map>
#include <string_view>
#include <type_traits>

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

using Words = std::vector<std::string>;
const Words kColors = {"auto", "always", "never"}, kLayouts = {"bnhd", "bhnd"}, kRivals = {"dense"},
            kDtypes = {"f32", "f16", "bf16", "f64"},
            kStages = {"ast", "pattern", "plan", "cuda", "ptx", "cubin", "sass", "llvm", "asm", "object"};

/// What stands in a table of its own, as words.
Words carriers() {
  Words out;
  for (const auto& [name, carrier] : ring::kCarriers) out.emplace_back(name);
  return out;
}

enum class Files { one, many, words, none };

CLI::Validator count_validator(bool may_be_zero) {
  return CLI::Validator(
      [may_be_zero](std::string& text) {
        const auto value = parse_count(text);
        if (value && (*value > 0 || may_be_zero)) {
          text = std::to_string(*value);
          return std::string();
        }
        return fmt::format("'{}' is not a whole number of at least {} (such as 512, 4k, 1m, 2g)", text,
                           may_be_zero ? 0 : 1);
      },
      "");
}

CLI::Validator seed_validator() {
  return CLI::Validator(
      [](std::string& text) {
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc() && end == text.data() + text.size()) return std::string();
        return fmt::format("'{}' is not a seed, which is a whole number from 0 to {}", text,
                           std::numeric_limits<std::uint64_t>::max());
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
  const bool may_be_zero = std::string_view(spelling) == "--head";
  app.add_option(spelling, to, help)->type_name("")->transform(count_validator(may_be_zero));
}
void add(CLI::App& app, const char* spelling, std::optional<std::uint64_t>& to, const char* help) {
  app.add_option(spelling, to, help)->type_name("")->transform(seed_validator());
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
  const char* what = kind == Files::words ? "what to do" : "a .weft file, or - for standard input";
  app.add_option("FILE", options.files, what)->type_name("");
}

void add_options(CLI::App& app, Command command, Options& options) {
#define OPTION(kind, member, spelling, commands, help) \
  if (((commands)&bit(command)) != 0) add(app, spelling, options.member, help);
#include "tools/options.def"
}

bool is_one_of(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// `; did you mean 'f16'?`, by the nearest of the words or what others call them; or nothing.
std::string meant(const std::string& word, const std::vector<std::string>& words) {
  static const std::map<std::string, std::string> kElsewhere = {
      {"float16", "f16"},  {"fp16", "f16"},    {"half", "f16"},   {"float32", "f32"}, {"fp32", "f32"},
      {"float", "f32"},    {"float64", "f64"}, {"double", "f64"}, {"fp64", "f64"},    {"bfloat16", "bf16"},
      {"gpu", "cuda"},     {"nvidia", "cuda"}, {"host", "cpu"},   {"native", "cpu"},  {"x86", "cpu"},
      {"llvm-ir", "llvm"}, {"ir", "llvm"},     {"ll", "llvm"},    {"cu", "cuda"},     {"obj", "object"},
      {"assembly", "asm"}, {"nbhd", "bhnd"},   {"BHND", "bhnd"},  {"BNHD", "bnhd"},   {"reference", "interpreter"}};
  const auto known = kElsewhere.find(word);
  const auto near =
      known != kElsewhere.end() && is_one_of(known->second, words) ? known->second : nearest_word(word, words);
  return near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
}

std::string one_of(const char* option, const std::string& value, const std::vector<std::string>& words) {
  if (value.empty() || is_one_of(value, words)) return {};
  return fmt::format("{} {}: expected one of {}{}", option, value, fmt::join(words, ", "), meant(value, words));
}

std::string wrong_pair(const char* option, const std::vector<std::string>& texts) {
  for (const auto& text : texts) {
    if (text.find('=') == std::string::npos || text[0] == '=')
      return fmt::format("{} {}: expected name=file.npy", option, text);
  }
  return {};
}

/// What CLI11 cannot say: values with a closed list of words, and one file exactly.
std::string mistake(const Options& options, Files files) {
  for (auto found : {one_of("--color", options.color, kColors), one_of("--layout", options.layout, kLayouts),
                     one_of("--against", options.against, kRivals), one_of("--dtype", options.dtype, kDtypes),
                     one_of("--stage", options.stage, kStages), one_of("--ring-by", options.ring_by, carriers()),
                     wrong_pair("--input", options.inputs), wrong_pair("--dinput", options.dinput),
                     wrong_target(options.target), wrong_ring(options)}) {
    if (!found.empty()) return found;
  }
  if (options.dtype == "f64" && !options.target.empty() && options.target != "interpreter") {
    return "--dtype f64 goes with --target interpreter: kernels take f32, f16 and bf16";
  }
  if (files == Files::one && options.files.size() > 1) return "one FILE at a time";
  const bool needs_file = files == Files::many || files == Files::one;
  const bool has_source = !options.files.empty() || !options.from.empty() || !options.explain.empty();
  if (needs_file && !has_source) return "FILE is missing";
  if (options.command != Command::bench && options.tokens.size() > 1) return "--tokens takes a list in `bench` only";
  return {};
}

const std::vector<std::string>& commands() {
  static const std::vector<std::string> kWords = {
#define COMMAND(word, kind, text) #word,
#include "tools/commands.def"
  };
  return kWords;
}

/// CLI11 would only say that some command is missing.
std::string unknown_command(int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-' || is_one_of(argv[1], commands())) return {};
  return fmt::format("there is no command '{}'{}", argv[1], meant(argv[1], commands()));
}

/// The spellings of the options of one command.
std::vector<std::string> options_of(const std::string& command) {
  std::vector<std::string> out = {"--help"};
  for (const auto& row : command_rows()) {
    for (const auto& option : option_rows()) {
      if (row.word == command && option.is_of(row)) out.emplace_back(option.spelling);
    }
  }
  return out;
}

std::string commands_with(const std::string& option) {
  std::string out;
  for (const auto& command : commands()) {
    if (is_one_of(option, options_of(command))) out += fmt::format("{}`{}`", out.empty() ? "" : ", ", command);
  }
  return out;
}

/// An option that the command does not have: CLI11 would only say that it expected nothing.
std::string unknown_option(int argc, const char* const* argv) {
  const auto command = std::find(commands().begin(), commands().end(), argc < 2 ? "" : argv[1]);
  if (command == commands().end()) return {};
  const auto known = options_of(*command);
  for (int i = 2; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string word = std::string(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    if (!word.starts_with("--") || is_one_of(word, known)) continue;
    const auto elsewhere = commands_with(word);
    if (!elsewhere.empty()) return fmt::format("{} is an option of {}, not of `{}`", word, elsewhere, *command);
    return fmt::format("`{}` has no option {}{}", *command, word, meant(word, known));
  }
  return {};
}

/// Ends the command line: as an object too, where one was asked for.
int say_usage(const std::string& text, int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") fmt::print("{}", line_of(failure("usage", kWrongUsage, text)));
  }
  const bool has_command = argc > 1 && is_one_of(argv[1], commands());
  tell(fmt::format("weft: {}\nSee weft{}{} --help.\n", text, has_command ? " " : "", has_command ? argv[1] : ""));
  return kWrongUsage;
}

}  // namespace

const std::vector<CommandRow>& command_rows() {
  static const std::vector<CommandRow> kRows = [] {
    std::vector<CommandRow> rows = {
#define COMMAND(word, kind, text) {#word, text, Command::word},
#include "tools/commands.def"
    };
    const auto takes = [&](Command command, Words words) {
      rows[static_cast<std::size_t>(command)].words = std::move(words);
    };
    takes(Command::bundle, {"build", "ls", "verify", "diff", "merge", "export", "sign"});
    takes(Command::cache, {"path", "ls", "stat", "verify", "clear", "prune", "why"});
    takes(Command::completion, {"bash", "zsh", "fish", "man"});
    return rows;
  }();
  return kRows;
}

const std::vector<OptionRow>& option_rows() {
  static const std::map<std::string, Words> kValues = {{"--color", kColors},   {"--layout", kLayouts},
                                                       {"--against", kRivals}, {"--dtype", kDtypes},
                                                       {"--stage", kStages},   {"--ring-by", carriers()}};
  static const std::vector<OptionRow> kRows = [] {
    std::vector<OptionRow> rows = {
#define OPTION(kind, member, spelling, commands, help) {spelling, !std::is_same_v<Options::kind, bool>, help, commands},
#include "tools/options.def"
    };
    for (auto& row : rows) {
      if (const auto values = kValues.find(row.spelling); values != kValues.end()) row.values = values->second;
    }
    return rows;
  }();
  return kRows;
}

std::string wrong_target(const std::string& name) {
  // Whether a GPU is there is not the command line's to get right.
  if (name.empty() || name == "cuda") return {};
  if (name.starts_with("cuda:") && name.size() > 5 && name.size() < 15 &&
      name.find_first_not_of("0123456789", 5) == std::string::npos) {
    return {};
  }
  const auto found = find_destination(name);
  if (found || found.error().kind != ErrorKind::user) return {};
  std::vector<std::string> names = {"cuda"};
  for (const auto& target : known_targets()) names.push_back(target.name);
  const auto near = meant(name, names);
  return fmt::format("--target {}: {}{}", name, found.error().message,
                     near.empty() ? "; `weft targets` lists them" : near);
}

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
  constexpr std::string_view kUnits = "kmg";
  if (digits == 0 || unit.size() > 1) return std::nullopt;
  const auto at = kUnits.find(unit);
  if (at == std::string_view::npos) return std::nullopt;
  const std::int64_t factor = unit.empty() ? 1 : std::int64_t{1024} << 10 * at;
  if (__builtin_mul_overflow(value, factor, &value)) return std::nullopt;
  return value;
}

Parsed parse_command_line(int argc, const char* const* argv) {
  if (const auto text = unknown_command(argc, argv); !text.empty()) return {.status = say_usage(text, argc, argv)};
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
    const auto unknown = unknown_option(argc, argv);
    return {.status = say_usage(unknown.empty() ? error.what() : unknown, argc, argv)};
  }
  if (const auto text = mistake(options, files); !text.empty()) {
    return {.status = say_usage(text, argc, argv)};
  }
  return {.options = std::move(options)};
}

}  // namespace weft::tools
