// Each folder of tests/data with an input.weft: of diagnostics.txt, ast.txt and format.weft what
// exists is compared. WEFT_BLESS=1 writes the files that differ.

#include "dsl/diagnostics.h"
#include "dsl/parse.h"
#include "texts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

namespace weft::test {
namespace {

namespace fs = std::filesystem;

class Case : public testing::TestWithParam<fs::path> {
 protected:
  const Source source_{"input.weft", read_text(GetParam() / "input.weft")};

  void compare(const char* name, const std::function<std::string()>& make) const {
    const fs::path path = GetParam() / name;
    if (!fs::exists(path)) return;
    const std::string actual = make();
    const std::string expected = read_text(path);
    if (actual == expected) return;
    if (std::getenv("WEFT_BLESS")) {
      std::ofstream(path, std::ios::binary) << actual;
      return;
    }
    EXPECT_EQ(actual, expected) << path.string() << " differs; if the new text is right:\n"
                                << "  WEFT_BLESS=1 ./dev test dsl";
  }
};

TEST_P(Case, Diagnostics) {
  compare("diagnostics.txt", [&] {
    std::string text;
    for (const Diagnostic& d : findings(source_)) text += (text.empty() ? "" : "\n") + render(d, source_);
    return text;
  });
}

TEST_P(Case, Tree) {
  compare("ast.txt", [&] { return dsl::print(parsed(source_.text)); });
}

TEST_P(Case, Format) {
  compare("format.weft", [&] { return formatted(source_.text); });
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

TEST(Codes, EachAppearsInSomeCase) {
  std::set<std::string> seen{"E0107"};  // A source over 1 MiB: see hostile_test.cpp.
  for (const fs::path& folder : case_folders()) {
    for (const Diagnostic& d : findings({"input.weft", read_text(folder / "input.weft")})) seen.insert(d.code);
  }
  for (const dsl::CodeInfo& info : dsl::codes()) EXPECT_TRUE(seen.contains(std::string(info.text))) << info.text;
}

TEST(Codes, AreNotReused) {
  std::set<std::string_view> seen;
  for (const dsl::CodeInfo& info : dsl::codes()) EXPECT_TRUE(seen.insert(info.text).second) << info.text;
}

}  // namespace
}  // namespace weft::test
