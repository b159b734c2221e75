/// The pages of docs that users learn from: every snippet is in order, is planned and drawn, and every picture is what
/// `weft draw` prints. WEFT_BLESS=1 writes the pictures that differ.

#include "command.h"

#include "tests/support/blessed.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

namespace weft::test {
namespace {

const char* const kPages[] = {"docs/language.md", "docs/semantics.md"};

/// A fenced block: what stands behind the fence, where its text begins, and the text.
struct Block {
  std::string info;
  std::size_t begin = 0;
  std::string text;
};

std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> out;
  for (std::size_t at = page.find("```"); at != std::string::npos; at = page.find("```", at)) {
    const std::size_t line = page.find('\n', at), end = page.find("```", line);
    out.push_back({page.substr(at + 3, line - at - 3), line + 1, page.substr(line + 1, end - line - 1)});
    at = end + 3;
  }
  return out;
}

std::vector<std::string> patterns_in(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("pattern ")) out.push_back(line.substr(8, line.find_first_of(" (", 8) - 8));
  }
  return out;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

class Page : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string path_ = in_checkout(GetParam());
  std::string page_ = read_text(path_);
  const Scratch scratch_;
};

TEST_P(Page, SnippetsAreInOrder) {
  int snippets = 0;
  for (const Block& block : blocks_of(page_)) {
    if (block.info != "weft") continue;
    ++snippets;
    const auto file = scratch_.write("snippet.weft", block.text);
    const auto checked = run_weft(scratch_, {"check", file});
    EXPECT_EQ(checked.status, 0) << block.text << checked.err;
    EXPECT_EQ(checked.err, "") << block.text;
    EXPECT_EQ(run_weft(scratch_, {"fmt", "--check", file}).status, 0) << "not laid out:\n" << block.text;
    for (const auto& pattern : patterns_in(block.text)) {
      const auto drawn = run_weft(scratch_, {"draw", file, "--pattern", pattern, "--tokens", "32", "--quiet"});
      EXPECT_EQ(drawn.status, 0) << block.text << drawn.err;
    }
  }
  EXPECT_GT(snippets, 0);
}

TEST_P(Page, PicturesAreWhatIsDrawn) {
  std::string file;
  std::vector<std::pair<Block, std::string>> differ;
  for (const Block& block : blocks_of(page_)) {
    if (block.info == "weft") file = scratch_.write("snippet.weft", block.text);
    if (!block.info.starts_with("text draw")) continue;
    std::vector<std::string> arguments = {"draw", file, "--quiet"};
    for (const auto& word : words_of(block.info.substr(9))) arguments.push_back(word);
    const auto drawn = run_weft(scratch_, arguments);
    EXPECT_EQ(drawn.status, 0) << drawn.err;
    if (drawn.out != block.text) differ.emplace_back(block, drawn.out);
  }
  if (std::getenv("WEFT_BLESS") == nullptr) {
    for (const auto& [block, drawn] : differ) EXPECT_EQ(block.text, drawn) << GetParam();
    return;
  }
  for (auto at = differ.rbegin(); at != differ.rend(); ++at)
    page_.replace(at->first.begin, at->first.text.size(), at->second);
  if (!differ.empty()) std::ofstream(path_) << page_;
}

INSTANTIATE_TEST_SUITE_P(, Page, ::testing::ValuesIn(kPages), [](const auto& page) {
  const std::string name = page.param;
  return name.substr(5, name.find('.') - 5);
});

/// The page of the language names every word.
TEST(Pages, NameEveryWord) {
  const Scratch scratch;
  const std::string page = read_text(in_checkout("docs/language.md"));
  for (const auto* topic : {"sets", "functions", "variables", "statements", "axes", "combining", "layouts", "policies",
                            "schedule", "types", "literals"}) {
    const auto help = run_weft(scratch, {"help", topic, "--json"});
    ASSERT_EQ(help.status, 0) << topic;
    for (std::size_t at = help.out.find("\"word\": \""); at != std::string::npos;) {
      at += 9;
      const std::string word = help.out.substr(at, help.out.find('"', at) - at);
      EXPECT_NE(page.find("`" + word), std::string::npos) << topic << ": " << word;
      at = help.out.find("\"word\": \"", at);
    }
  }
}

TEST(HelpCommand, ShowsTopicsAndWords) {
  const Scratch scratch;
  const auto sets = run_weft(scratch, {"help", "sets"});
  EXPECT_EQ(sets.status, 0);
  EXPECT_NE(sets.out.find("window(a, c)"), std::string::npos);
  EXPECT_NE(run_weft(scratch, {"help", "window"}).out.find("keep window(127, 0);"), std::string::npos);
  EXPECT_NE(run_weft(scratch, {"help"}).out.find("functions"), std::string::npos);
  const auto unknown = run_weft(scratch, {"help", "windw"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("did you mean 'window'"), std::string::npos) << unknown.err;
}

/// The examples of all words, as one file: sound, laid out or not, and planned.
TEST(HelpCommand, ShowsExamplesThatArePlanned) {
  const Scratch scratch;
  const auto help = nlohmann::json::parse(run_weft(scratch, {"help", "--json"}).out);
  std::string text;
  int number = 0;
  for (const auto& row : help["words"]) {
    std::string example = row["example"];
    for (const std::string name : {"pattern p", "pattern near", "use near"}) {
      const auto at = example.find(name);
      if (at != std::string::npos) example.insert(at + name.size(), "_" + std::to_string(number));
    }
    text += example + "\n";
    ++number;
  }
  EXPECT_GT(number, 100);
  const auto checked = run_weft(scratch, {"check", scratch.write("all.weft", text)});
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_EQ(checked.err, "");
}

TEST(HelpCommand, ExplainsCodes) {
  const Scratch scratch;
  for (const auto* code : {
           "E0204",
           "E0321",
           "W0303",
           "E0900",
           "E0901",
           "E0104",
#define WEFT_DIAGNOSTIC(code, ...) code,
#include "compiler/planner/diagnostics.def"
       }) {
    const auto explained = run_weft(scratch, {"check", "--explain", code});
    EXPECT_EQ(explained.status, 0) << code << explained.err;
    EXPECT_NE(explained.out.find(code), std::string::npos);
  }
  EXPECT_NE(run_weft(scratch, {"check", "--explain", "E0204"}).out.find("heads 8.5;"), std::string::npos);
  EXPECT_EQ(run_weft(scratch, {"check", "--explain", "E9999"}).status, 2);
  EXPECT_EQ(run_weft(scratch, {"check"}).status, 2);
}

}  // namespace
}  // namespace weft::test
