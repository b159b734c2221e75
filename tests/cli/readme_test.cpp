/// What the front page shows is what the command prints.

#include "command.h"

#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace weft::test {
namespace {

std::string read(const std::string& path) {
  std::ifstream in(test::in_checkout(path));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The first fenced block of a language.
std::string block(const std::string& page, const std::string& language) {
  const auto fence = "```" + language + "\n";
  const auto begin = page.find(fence) + fence.size();
  return page.substr(begin, page.find("```", begin) - begin);
}

TEST(Readme, PatternAndMask) {
  const Scratch scratch;
  const auto page = read("README.md");
  EXPECT_EQ(block(page, "weft"), read("examples/mixed.weft"));
  const auto drawn = run_weft(scratch, {"draw", test::in_checkout("examples/mixed.weft"), "--tokens", "22"});
  EXPECT_EQ(block(page, "text"), drawn.out);
}

TEST(Readme, ExamplesAreLaidOut) {
  const Scratch scratch;
  for (const auto* name : {"longnet", "window", "mixed"}) {
    const auto path = test::in_checkout(std::string("examples/") + name + ".weft");
    EXPECT_EQ(run_weft(scratch, {"fmt", "--check", path}).status, 0) << name;
    EXPECT_EQ(run_weft(scratch, {"check", path}).err, "") << name;  // no warning, and kernels can run it
  }
}

TEST(Readme, IsShort) {
  const auto page = read("README.md");
  EXPECT_LE(std::count(page.begin(), page.end(), '\n'), 150);
}

}  // namespace
}  // namespace weft::test
