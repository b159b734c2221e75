#include "tests/support/blessed.h"
#include "texts.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::test {
namespace {

TEST(Formatter, IsIdempotentOnEveryCaseThatParses) {
  std::size_t formatted_files = 0;
  for (const auto& folder : case_folders()) {
    const Source source{"input.weft", read_text(folder / "input.weft")};
    const auto found = findings(source);
    if (!found.empty() && found.front().code.starts_with("E01")) continue;
    const std::string once = formatted(source.text);
    EXPECT_EQ(formatted(once), once) << folder;
    ++formatted_files;
  }
  EXPECT_GT(formatted_files, 5U);
}

TEST(Formatter, JoinsOnlyWhatWasJoined) {
  EXPECT_EQ(formatted("pattern p{heads 8;dim 64;\nkeep all;\n\n\n\ndtype f16;}"),
            "pattern p {\n  heads 8; dim 64;\n  keep all;\n\n  dtype f16;\n}\n");
  EXPECT_EQ(formatted("pattern p { keep all; }"), "pattern p { keep all; }\n");
  EXPECT_EQ(formatted("pattern p {\n}"), "pattern p { }\n");
}

TEST(Formatter, SeparatesPatterns) {
  EXPECT_EQ(formatted("const a=1;const b=2;pattern p{}pattern q(){}# end"),
            "const a = 1;\nconst b = 2;\n\npattern p { }\n\npattern q { }  # end\n");
}

TEST(Formatter, SpellsNumbersAsTheUserDid) {
  EXPECT_EQ(formatted("const x=[8k,1m,0.10,1e-3,8192];"), "const x = [8k, 1m, 0.10, 1e-3, 8192];\n");
}

TEST(Formatter, KeepsParenthesesOnce) {
  EXPECT_EQ(formatted("const x = ((1+2))*3-(4);"), "const x = (1 + 2) * 3 - (4);\n");
}

TEST(Formatter, LinesEndInNewLinesOnly) {
  EXPECT_EQ(formatted("\xEF\xBB\xBFpattern p {\r\n  keep all;\t# why \r\n}\r\n"),
            "pattern p {\n  keep all;  # why\n}\n");
}

TEST(Formatter, LongLinesFitAgain) {
  std::string condition = "q == 0";
  for (int i = 1; i < 40; ++i) condition += " or abs(q - k) == " + std::to_string(i);
  const std::string text = formatted("pattern p { keep where(" + condition + "); }");
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 120U);
    begin = end + 1;
  }
}

TEST(Formatter, ListsShareLines) {
  std::string numbers = "100";
  for (int i = 101; i < 160; ++i) numbers += ", " + std::to_string(i);
  const std::string text = formatted("const x = [" + numbers + "];");
  EXPECT_EQ(text.substr(0, 22), "const x = [\n  100, 101");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5) << text;
}

}  // namespace
}  // namespace weft::test
