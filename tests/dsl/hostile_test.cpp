// Texts made to hurt. Each must come back with a clear answer, soon, and without a deep stack.

#include "compiler/ir/check.h"
#include "dsl/parse.h"
#include "dsl/printer.h"
#include "texts.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <thread>

namespace weft::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::string repeat(const std::string& piece, std::size_t count) {
  std::string text;
  text.reserve(piece.size() * count);
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

/// As many pieces as a source may hold, inside a statement.
std::string filled(const std::string& before, const std::string& piece, const std::string& behind) {
  return "pattern p { " + before + repeat(piece, (kMiB - 100) / piece.size()) + behind + " }";
}

std::string codes_of(const std::string& text) {
  // Of the processor's time, and generous for sanitizers; quadratic time takes minutes here.
  constexpr double kMostSeconds = 20;
  const std::clock_t start = std::clock();
  const Source source{"test.weft", text};
  std::string codes;
  const auto file = dsl::parse(source);
  const auto found = file.ok() ? ir::check(*file, source) : file.error().diagnostics;
  for (const Diagnostic& d : found) {
    if (codes.find(d.code) == std::string::npos) codes += (codes.empty() ? "" : " ") + d.code;
  }
  if (file.ok()) {
    EXPECT_FALSE(dsl::format(*file, source).empty());
    EXPECT_FALSE(dsl::print(*file).empty());
  }
  EXPECT_LE(found.size(), 100U);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kMostSeconds);
  return codes;
}

TEST(Hostile, BracketsWithoutEnd) {
  for (const char* bracket : {"(", "[", "{", "a(", "a["}) {
    EXPECT_EQ(codes_of("pattern p { keep " + repeat(bracket, 100000)), "E0108") << bracket;
  }
}

TEST(Hostile, NestingAtTheLimit) {
  EXPECT_EQ(codes_of(in_pattern("score " + repeat("(", 255) + "s" + repeat(")", 255) + ";")), "");
  EXPECT_EQ(codes_of(in_pattern("score " + repeat("(", 256) + "s" + repeat(")", 256) + ";")), "E0108");
}

TEST(Hostile, ChainsOfOperators) {
  EXPECT_EQ(codes_of(filled("score ", "s + ", "s;")), "E0109");
  EXPECT_EQ(codes_of(filled("score ", "- ", "s;")), "E0109");
  EXPECT_EQ(codes_of(filled("keep ", "!", "all;")), "E0109");
  EXPECT_EQ(codes_of(filled("keep where(", "not ", "q == k);")), "E0109");
  EXPECT_EQ(codes_of(filled("keep where(", "q < ", "k);")), "E0109");
  EXPECT_EQ(codes_of(filled("keep ", "all | ", "all;")), "E0109");
  EXPECT_EQ(codes_of(filled("score s", "[0]", ";")), "E0109");
  EXPECT_EQ(codes_of(in_pattern("score " + repeat("s + ", 1000) + "s;")), "");
}

TEST(Hostile, LongLists) {
  EXPECT_EQ(codes_of(filled("keep where(q in [", "1,", "1]);")), "E0110");
  EXPECT_EQ(codes_of(filled("keep window(", "1,", "1);")), "E0110");
  EXPECT_EQ(codes_of(in_pattern("keep where(q in [" + repeat("1, ", 1023) + "1]);")), "");
  EXPECT_EQ(codes_of(in_pattern("keep where(q in [" + repeat("1, ", 1024) + "1]);")), "E0110");
}

TEST(Hostile, ManyStatements) {
  EXPECT_EQ(codes_of(filled("", "keep all;", "")), "");
  EXPECT_EQ(codes_of(filled("", "keep ;", "")), "E0101");
  EXPECT_EQ(codes_of(filled("", "kep all;", "")), "E0111");
  EXPECT_EQ(codes_of(filled("", "keep nothing;", "")), "E0201");
  EXPECT_EQ(codes_of(filled("", "heads 4;", "")), "E0218");
  EXPECT_EQ(codes_of(filled("", "use p();", "")), "E0231");
  EXPECT_EQ(codes_of(filled("", "input x: u8[2];", "")), "E0220");
  EXPECT_EQ(codes_of(filled("", "branch all;", "")), "E0230");
  EXPECT_EQ(codes_of(repeat("pattern p { }\n", 70000)), "E0220");
  EXPECT_EQ(codes_of(repeat("const x = 1;\n", 70000)), "E0220");
}

TEST(Hostile, LongLines) {
  EXPECT_EQ(codes_of("pattern p { keep all" + std::string(kMiB - 100, ' ') + "; }"), "");
  EXPECT_EQ(codes_of("pattern p { keep all; } #" + std::string(kMiB - 100, 'x')), "");
  EXPECT_EQ(codes_of("pattern " + std::string(kMiB - 100, 'x') + " { }"), "");
  EXPECT_EQ(codes_of(in_pattern("score " + std::string(kMiB - 100, '1') + ";")), "E0106");
  EXPECT_EQ(codes_of(repeat("#\n", 500000) + "pattern p { }"), "");
}

TEST(Hostile, UsesThatMultiply) {
  std::string doubling = "pattern p0 { keep all; }\n";
  std::string chain = doubling;
  for (int i = 1; i <= 64; ++i) {
    const std::string number = std::to_string(i), before = std::to_string(i - 1);
    doubling += "pattern p" + number + " { use p" + before + "(); use p" + before + "(); }\n";
    chain += "pattern p" + number + " { use p" + before + "(); }\n";
  }
  EXPECT_EQ(codes_of(doubling), "E0230");
  EXPECT_EQ(codes_of(chain), "");
  EXPECT_EQ(codes_of(chain + "pattern p65 { use p64(); }"), "E0108");
  std::string forward;
  for (int i = 0; i < 20000; ++i) {
    forward += "pattern p" + std::to_string(i) + " { use p" + std::to_string(i + 1) + "(); }\n";
  }
  EXPECT_EQ(codes_of(forward + "pattern p20000 { }"), "E0108");
}

TEST(Hostile, BytesThatAreNoText) {
  std::mt19937_64 random(20250101);
  std::string bytes(10 * kMiB, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  EXPECT_EQ(codes_of(bytes), "E0107");
  EXPECT_EQ(codes_of("pattern p { } " + std::string(1, '\xFF') + bytes.substr(0, 1000)), "E0104");
  EXPECT_EQ(codes_of(std::string(kMiB, '\0')), "E0103");
  EXPECT_EQ(codes_of("# \xFF\xFE in a comment\npattern p { }"), "");
  EXPECT_EQ(codes_of("\xEF\xBB\xBFpattern p { }"), "");
  EXPECT_EQ(codes_of("pattern p { keep \xC0\xAF; }"), "E0104");
  EXPECT_EQ(codes_of("pattern p { keep \xED\xA0\x80; }"), "E0104");
}

TEST(Hostile, NothingAtAll) {
  EXPECT_EQ(codes_of(""), "E0102");
  EXPECT_EQ(codes_of(" \n\t\r\n"), "E0102");
  EXPECT_EQ(codes_of("# only a comment"), "E0102");
}

/// Threads of the library's users may have small stacks.
TEST(Hostile, DeepTreesNeedLittleStack) {
  const std::string text =
      in_pattern("score " + repeat("(s + ", 250) + repeat("- ", 700) + "s" + repeat(")", 250) + ";");
  std::thread([&] { EXPECT_EQ(codes_of(text), ""); }).join();
}

}  // namespace
}  // namespace weft::test
