#include "compiler/ir/check.h"
#include "compiler/ir/lower.h"
#include "dsl/parse.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

/// What every file of examples/ promises: it is in order as it stands, says where it comes from, and is listed.
namespace weft::test {
namespace {

namespace fs = std::filesystem;

const fs::path kShelf = test::in_checkout("examples");

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<fs::path> files() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(kShelf)) {
    if (entry.path().extension() == ".weft") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

class Shelf : public ::testing::TestWithParam<fs::path> {};

TEST_P(Shelf, InOrder) {
  const Source source{GetParam().filename().string(), text_of(GetParam())};
  EXPECT_TRUE(source.text.starts_with("# ")) << "the first line says where the pattern comes from";
  const auto file = dsl::parse(source);
  ASSERT_TRUE(file.ok());
  for (const Diagnostic& d : ir::check(*file, source)) ADD_FAILURE() << render(d, source);
  EXPECT_EQ(dsl::format(*file, source), source.text) << "weft fmt lays it out";
  for (const auto& pattern : file->patterns) {
    std::vector<Diagnostic> warnings;
    const auto lowered = ir::lower(*file, pattern.name, {}, &warnings);
    EXPECT_TRUE(lowered.ok()) << pattern.name
                              << " with its defaults: " << (lowered.ok() ? "" : lowered.error().message);
    for (const Diagnostic& d : warnings) ADD_FAILURE() << render(d, source);
  }
}

TEST_P(Shelf, Listed) {
  const std::string page = text_of(kShelf / "README.md");
  EXPECT_NE(page.find("| `" + GetParam().filename().string() + "` |"), std::string::npos)
      << "examples/README.md has no row for it";
}

INSTANTIATE_TEST_SUITE_P(, Shelf, ::testing::ValuesIn(files()),
                         [](const auto& of) { return of.param.stem().string(); });

}  // namespace
}  // namespace weft::test
