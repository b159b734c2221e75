// What the command tells about the language is complete, and true.

#include "dsl/help.h"

#include "dsl/diagnostics.h"
#include "dsl/words.h"
#include "texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace weft::test {
namespace {

std::set<std::string> told() {
  std::set<std::string> words;
  for (const dsl::Help& row : dsl::help()) words.emplace(row.word);
  return words;
}

/// Every word of words.def has a row, and no row is about anything else.
TEST(Help, KnowsEveryWord) {
  std::set<std::string> words;
  for (const auto& list : {dsl::set_names(), dsl::function_names()}) words.insert(list.begin(), list.end());
  for (const auto& row : dsl::variable_words()) words.emplace(row.name);
  for (const auto& row : dsl::statement_words()) words.emplace(row.name);
  for (const auto& row : dsl::schedule_keys()) words.emplace(row.name);
  for (int kind = 0; kind <= static_cast<int>(dsl::WordKind::scorer); ++kind) {
    const auto& list = dsl::words_of(static_cast<dsl::WordKind>(kind));
    words.insert(list.begin(), list.end());
  }
  words.erase("pattern");  // the items of a file: docs/language.md begins with them
  words.erase("const");
  EXPECT_EQ(told(), words);
}

TEST(Help, ExamplesCheckAndShowTheirWord) {
  for (const dsl::Help& row : dsl::help()) {
    const Source source{std::string(row.word), dsl::example_text(row)};
    for (const Diagnostic& d : findings(source)) ADD_FAILURE() << render(d, source);
    EXPECT_NE(source.text.find(row.word), std::string::npos) << row.word;
    EXPECT_FALSE(row.meaning.empty() || row.written.empty()) << row.word;
  }
}

TEST(Explanations, AreThoseOfTheCodes) {
  std::set<std::string_view> codes, explained;
  for (const dsl::CodeInfo& info : dsl::codes()) codes.insert(info.text);
  for (const dsl::Explanation& row : dsl::explanations()) EXPECT_TRUE(explained.insert(row.code).second) << row.code;
  EXPECT_EQ(explained, codes);
}

TEST(Explanations, ShowWhatIsWrongAndWhatIsRight) {
  const std::set<std::string_view> too_long = {"E0104", "E0107", "E0108", "E0109", "E0110", "E0230"};
  for (const dsl::Explanation& row : dsl::explanations()) {
    EXPECT_EQ(row.wrong.empty(), too_long.contains(row.code)) << row.code;
    if (row.wrong.empty()) continue;
    const Source wrong{"wrong", std::string(row.wrong)}, right{"right", std::string(row.right)};
    const auto found = findings(wrong);
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [&](const Diagnostic& d) { return d.code == row.code; }))
        << row.code << (found.empty() ? "" : "\n" + render(found[0], wrong));
    for (const Diagnostic& d : findings(right)) ADD_FAILURE() << row.code << "\n" << render(d, right);
  }
}

}  // namespace
}  // namespace weft::test
