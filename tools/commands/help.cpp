#include "tools/commands/help.h"
#include "compiler/ir/check.h"

#include "compiler/ir/lower.h"
#include "dsl/diagnostics.h"
#include "dsl/help.h"
#include "dsl/parse.h"
#include "tools/commands/commands.h"
#include "tools/json.h"

#include <algorithm>

namespace weft::tools {

namespace {

/// What no text alone is to blame for: the planner's findings, and the command's own.
constexpr dsl::CodeInfo kMore[] = {
#define WEFT_DIAGNOSTIC(...) {__VA_ARGS__},
#include "compiler/planner/diagnostics.def"
    {"E0900", "something outside of the text",
     "What is wrong is not in the text: a value behind -D, or an option. The message says what.", "", ""},
    {"E0901", "option that contradicts the text",
     "The text fixes heads, dim or dtype, and the options say another. Leave one of the two out.", "", ""},
};

const dsl::CodeInfo* find_code(std::string_view code) {
  const auto is = [&](const dsl::CodeInfo& row) { return row.text == code; };
  const auto read = dsl::codes();
  if (const auto row = std::find_if(read.begin(), read.end(), is); row != read.end()) return &*row;
  const auto* row = std::find_if(std::begin(kMore), std::end(kMore), is);
  return row == std::end(kMore) ? nullptr : row;
}

/// What the command says about a text.
std::string said(const std::string& text) {
  const Source source{"wrong.weft", text};
  std::string out;
  const auto file = dsl::parse(source, ir::examine);
  std::vector<Diagnostic> found = file ? ir::check(*file, source) : file.error().diagnostics;
  const bool wrong =
      std::any_of(found.begin(), found.end(), [](const Diagnostic& d) { return d.severity == Severity::error; });
  if (file && !wrong) {
    const auto pattern = ir::lower(*file, file->patterns.back().name, {}, &found);
    if (!pattern) found = pattern.error().diagnostics;
  }
  for (const Diagnostic& d : found) out += render(d, source);
  return out;
}

std::vector<std::string> topics() {
  std::vector<std::string> out;
  for (const dsl::Help& row : dsl::help()) {
    if (out.empty() || out.back() != row.topic) out.emplace_back(row.topic);
  }
  return out;
}

Json to_json(const dsl::Help& row) {
  return {{"topic", row.topic},
          {"word", row.word},
          {"written", row.written},
          {"meaning", row.meaning},
          {"example", dsl::example_text(row)}};
}

/// Rows of one topic in two columns; those of one word with their example.
void print_rows(const std::vector<dsl::Help>& rows, bool with_example, const Console& console) {
  std::size_t width = 0;
  for (const dsl::Help& row : rows) width = std::max(width, row.written.size());
  width = std::min<std::size_t>(width, 32);
  for (const dsl::Help& row : rows) {
    if (!with_example && row.written.size() <= width) {
      console.print("  {:<{}}  {}\n", row.written, width, row.meaning);
    } else {
      console.print("  {}\n  {:<{}}  {}\n", row.written, "", with_example ? 2 : width, row.meaning);
    }
    if (with_example) console.print("\n    {}\n", row.example);
  }
}

void print_overview(const Console& console) {
  console.print(
      "A pattern says which query-key pairs attend, and how they are scored:\n\n"
      "  pattern sliding(width: int = 256) {{\n    keep window(width - 1, 0);\n    score softcap(s, 50);\n  }}\n\n"
      "weft help TOPIC or weft help WORD, where the topics are\n");
  for (const std::string& topic : topics()) {
    std::string words;
    for (const dsl::Help& row : dsl::help()) {
      if (row.topic == topic) words += (words.empty() ? "" : " ") + std::string(row.word);
    }
    console.print("  {:<11} {}\n", topic, words);
  }
  console.print(
      "\nThe language is described in docs/language.md, its meaning in docs/semantics.md; weft COMMAND --help\n"
      "lists the options of a command, weft check --explain E0204 says what a code means.\n");
}

int unknown_word(const std::string& word, const Console& console) {
  std::vector<std::string> known = topics();
  for (const dsl::Help& row : dsl::help()) known.emplace_back(row.word);
  const std::string near = nearest_word(word, known);
  return console.usage(fmt::format("help: '{}' is neither a topic nor a word of the language{}", word,
                                   near.empty() ? "; weft help lists them" : "; did you mean '" + near + "'?"));
}

}  // namespace

int explain_code(const std::string& code, const Console& console) {
  const dsl::CodeInfo* row = find_code(code);
  if (row == nullptr) {
    return console.usage(fmt::format("--explain {:.20}: there is no such code; codes look like E0204", code));
  }
  const std::string wrong(row->wrong), right(row->right);
  if (console.json()) {
    console.print(
        "{}\n",
        json_text(Json{
            {"code", code}, {"title", row->title}, {"meaning", row->meaning}, {"wrong", wrong}, {"right", right}}));
    return kDone;
  }
  console.print("{}: {}\n\n{}\n", code, row->title, row->meaning);
  if (!wrong.empty()) console.print("\nwrong:\n\n{}\nright:\n\n    {}\n", said(wrong), right);
  return kDone;
}

int command_help(const Options& options, const Console& console) {
  if (options.files.size() > 1) return console.usage("help takes one topic or word");
  const std::string wanted = options.files.empty() ? "" : options.files[0];
  std::vector<dsl::Help> rows;
  for (const bool of_topic : {true, false}) {
    if (!rows.empty()) break;
    for (const dsl::Help& row : dsl::help()) {
      if (wanted.empty() || wanted == (of_topic ? row.topic : row.word)) rows.push_back(row);
    }
  }
  if (rows.empty()) return unknown_word(wanted, console);
  if (console.json()) {
    Json words = Json::array();
    for (const dsl::Help& row : rows) words.push_back(to_json(row));
    console.print("{}\n", json_text(Json{{"words", words}}));
    return kDone;
  }
  if (wanted.empty()) {
    print_overview(console);
  } else {
    print_rows(rows, rows[0].topic != wanted, console);
  }
  return kDone;
}

}  // namespace weft::tools
