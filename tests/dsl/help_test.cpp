// What the command tells about the language is complete, and true.

#include "dsl/help.h"

#include "dsl/words.h"
#include "texts.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace weft::test
