// Sample files with small damage. Whatever a hand on a keyboard does to a file, reading it ends,
// errors point into it, and what still parses can be formatted.

#include "compiler/ir/check.h"
#include "dsl/parse.h"
#include "dsl/printer.h"
#include "tests/support/blessed.h"
#include "texts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace weft::test {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t limit) { return limit == 0 ? 0 : random() % limit; }

std::string damaged(const std::string& text, const std::string& other, Random& random) {
  static const std::vector<std::string> kPieces = {";",        "}",
                                                   "{",        "(",
                                                   ")",        "[",
                                                   "]",        ",",
                                                   ":",        "..",
                                                   "=",        "-",
                                                   "!",        "not ",
                                                   " and ",    " in ",
                                                   "|",        "&",
                                                   "#",        "# c\n",
                                                   "\n",       "9999999999999999999",
                                                   "0",        "-1",
                                                   "1.5",      "8k",
                                                   "2x",       "all",
                                                   "any(",     "rate",
                                                   "pattern ", "const ",
                                                   "use ",     "\xC3\xA9",
                                                   "\xFF",     "where(",
                                                   "window(",  "h",
                                                   "s",        "true"};
  std::string out = text;
  for (std::size_t edits = 1 + below(random, 3); edits > 0; --edits) {
    const std::size_t at = below(random, out.size() + 1);
    switch (random() % 5) {
      case 0:
        out.erase(at, 1 + below(random, 8));
        break;
      case 1:
        out.insert(at, kPieces[below(random, kPieces.size())]);
        break;
      case 2: {
        const std::size_t from = below(random, other.size());
        out.insert(at, other.substr(from, below(random, 40)));
        break;
      }
      case 3:
        out.replace(at, std::min<std::size_t>(1, out.size() - at), kPieces[below(random, kPieces.size())]);
        break;
      default:
        out.resize(at);
        break;
    }
  }
  return out;
}

void examine(const std::string& text) {
  const Source source{"test.weft", text};
  const auto file = dsl::parse(source);
  const auto found = file.ok() ? ir::check(*file, source) : file.error().diagnostics;
  EXPECT_TRUE(file.ok() || !found.empty()) << text;
  for (const Diagnostic& d : found) {
    EXPECT_LE(d.range.begin, d.range.end) << text;
    EXPECT_LE(d.range.end, text.size()) << text;
    EXPECT_FALSE(render(d, source).empty());
    EXPECT_EQ(d.message.find("N5boost"), std::string::npos) << d.message;  // a rule without a name
  }
  if (!file.ok()) return;
  const std::string once = dsl::format(*file, source);
  const auto again = dsl::parse({"formatted.weft", once});
  ASSERT_TRUE(again.ok()) << text << "\n=====\n" << once;
  EXPECT_EQ(print_tree(*again, dsl::Places::hidden), print_tree(*file, dsl::Places::hidden)) << text;
  EXPECT_EQ(again->comments.size(), file->comments.size()) << text << "\n=====\n" << once;
  EXPECT_EQ(dsl::format(*again, {"formatted.weft", once}), once) << text;
}

TEST(Mutation, EndsWithAnAnswer) {
  constexpr std::uint64_t kSeed = 7;
  constexpr std::chrono::seconds kEnough(5);
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::vector<std::string> samples;
  for (const auto& path : sample_files()) samples.push_back(read_text(path));
  for (const auto& folder : case_folders()) samples.push_back(read_text(folder / "input.weft"));
  Random random(kSeed);
  const auto start = std::chrono::steady_clock::now();
  std::size_t done = 0;
  for (; done < 20000 && std::chrono::steady_clock::now() - start < kEnough; ++done) {
    const std::string& text = samples[below(random, samples.size())];
    examine(damaged(text, samples[below(random, samples.size())], random));
    if (HasFailure()) return;
  }
  EXPECT_GT(done, 50U);
}

/// Comments may stand between any two words.
TEST(Mutation, CommentsAnywhere) {
  Random random(11);
  for (const auto& path : sample_files()) {
    std::string text = read_text(path);
    for (int comments = 0; comments < 5; ++comments) {
      const std::size_t at = text.find_first_of(" \n(),;", below(random, text.size()));
      if (at != std::string::npos) text.insert(at, random() % 2 == 0 ? " # here\n" : "\n# there\n");
    }
    const Source source{"test.weft", text};
    const auto file = dsl::parse(source);
    if (file.ok()) examine(text);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft::test
