// Each folder of tests/data with an input.weft: of diagnostics.txt, ast.txt and format.weft what
// exists is compared. WEFT_BLESS=1 writes the files that differ.

#include "dsl/diagnostics.h"
#include "dsl/parse.h"
#include "tests/support/blessed.h"
#include "texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class Case : public testing::TestWithParam<fs::path> {
 protected:
  fs::path file(const char* name) const { return GetParam() / name; }

  const Source source_{"input.weft", read_text(file("input.weft"))};
};

/// diagnostics.txt goes on with what the lowering finds, where checking finds no error.
TEST_P(Case, Diagnostics) {
  std::string text;
  bool wrong = false;
  for (const Diagnostic& d : findings(source_)) {
    text += render(d, source_);
    wrong |= d.severity == Severity::error;
  }
  if (wrong) {
    EXPECT_EQ(compare_blessed(file("diagnostics.txt"), text), "");
  } else if (fs::exists(file("diagnostics.txt"))) {
    EXPECT_TRUE(read_text(file("diagnostics.txt")).starts_with(text)) << text;
  }
}

TEST_P(Case, Tree) {
  if (!fs::exists(file("ast.txt"))) return;
  EXPECT_EQ(compare_blessed(file("ast.txt"), dsl::print(parsed(source_.text))), "");
}

TEST_P(Case, Format) {
  if (!fs::exists(file("format.weft"))) return;
  EXPECT_EQ(compare_blessed(file("format.weft"), formatted(source_.text)), "");
}

/// A shown fix works: with it in place the error at that place is gone.
TEST_P(Case, FixesWork) {
  const std::vector<Diagnostic> found = findings(source_);
  const auto count = [](const std::vector<Diagnostic>& list, const std::string& code) {
    return std::count_if(list.begin(), list.end(), [&](const Diagnostic& d) { return d.code == code; });
  };
  for (const Diagnostic& d : found) {
    if (!d.fix) continue;
    Source mended = source_;
    mended.text.replace(d.fix->range.begin, d.fix->range.end - d.fix->range.begin, d.fix->replacement);
    EXPECT_LT(count(findings(mended), d.code), count(found, d.code)) << render(d, source_);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Case, testing::ValuesIn(case_folders()),
                         [](const auto& folder) { return identifier(folder.param); });

TEST(Codes, AreNotReused) {
  std::set<std::string_view> seen;
  for (const dsl::CodeInfo& info : dsl::codes()) EXPECT_TRUE(seen.insert(info.text).second) << info.text;
}

}  // namespace
}  // namespace weft::test
