#include "compiler/ir/check.h"
#include "compiler/ir/lower.h"
#include "dsl/parse.h"
#include "limits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

/// Texts made to hurt, each through the whole front end: it must end in linear time, within a second and 256 MiB.
namespace weft::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

void read(const std::string& text) {
  const Source source{"hostile.weft", text};
  const auto file = dsl::parse(source);
  if (!file.ok()) return;
  const auto findings = ir::check(*file, source);
  (void)dsl::format(*file, source);
  if (file->patterns.empty()) return;
  if (std::any_of(findings.begin(), findings.end(), [](auto& d) { return d.severity == Severity::error; })) return;
  // One is linear in the text; all of many need not be.
  for (const auto* pattern : {&file->patterns.front(), &file->patterns.back()}) {
    const auto lowered = ir::lower(*file, pattern->name, {});
    if (lowered.ok()) (void)ir::print(*lowered);
  }
}

std::string numbers(std::size_t count, const std::function<std::size_t(std::size_t)>& value) {
  std::string out = "[";
  for (std::size_t i = 0; i < count; ++i) out += fmt::format("{}{}", i > 0 ? ", " : "", value(i));
  return out + "]";
}

std::string in_pattern(const std::string& statements) { return "pattern p { " + statements + " }"; }

/// Statement number i of each, `count` times.
std::string listed(std::size_t count, const std::function<std::string(std::size_t)>& statement) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += statement(i);
  return out;
}

/// `let x1 = x0 OP x0; let x2 = x1 OP x1; …`: short to say, long to write out.
std::string doubling(const std::string& first, const std::string& operation, const std::string& use) {
  std::string out = "let x0 = " + first + "; ";
  for (int i = 1; i <= 200; ++i) out += fmt::format("let x{0} = x{1} {2} x{1}; ", i, i - 1, operation);
  return in_pattern(out + use);
}

/// Patterns that each use the one before twice.
std::string multiplying_uses(const std::string& statement) {
  std::string out = "pattern p0 { " + statement + " }\n";
  for (int i = 1; i <= 60; ++i) out += fmt::format("pattern p{0} {{ use p{1}(); use p{1}(); }}\n", i, i - 1);
  return out;
}

std::string bytes(std::size_t count) {
  std::string out(count, '\0');
  std::uint64_t state = 7;
  for (char& c : out) c = static_cast<char>((state = state * 6364136223846793005U + 1442695040888963407U) >> 56);
  return out;
}

const std::string kLong1024 = numbers(1024, [](std::size_t i) { return i % 7 + 1; });
const std::string kDistinct1024 = numbers(1024, [](std::size_t i) { return i + 1; });

struct Hostile {
  const char* name;
  std::string text;
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

std::vector<Hostile> nesting() {
  return {
      {"OpenBrackets", in_pattern("keep " + std::string(kMiB - 100, '('))},
      {"BalancedBrackets", in_pattern("score " + std::string(500000, '(') + "s" + std::string(500000, ')') + ";")},
      {"NestedLists", in_pattern("keep where(q in " + repeat("[", 500000) + repeat("]", 500000) + ");")},
      {"NestedCalls", in_pattern("score " + repeat("abs(", 250) + "s" + repeat(")", 250) + ";")},
      {"NestedBlocks", in_pattern("branch " + repeat("blocks(2, ", 62) + "causal" + repeat(")", 62) + ";")},
      {"NestedBlocksThatOverflow",
       in_pattern("branch " + repeat("blocks(1m, ", 200) + "causal" + repeat(")", 200) + ";")},
      {"NestedQuantifiers",
       in_pattern("keep where(" + repeat("any(x in 0..1024: ", 200) + "q == x" + repeat(")", 200) + ");")},
      {"NestedSums", in_pattern("keep where(0 < " + repeat("sum(x in 0..1024: ", 3) + "q * x" + repeat(")", 3) + ");")},
      {"Braces", filled("", "pattern p {", "")},
      {"AlternatingSets", in_pattern("keep " + repeat("!(all - (", 120) + "all" + repeat("))", 120) + ";")},
  };
}

/// Values behind -D are texts as well.
TEST(HostileValues, EndWithinLimits) {
  for (const std::string& value :
       {repeat("(", 100000), repeat("[", 100000), repeat("(", 50000) + "1" + repeat(")", 50000),
        repeat("-", kMiB) + "1", repeat("1,", 100000), repeat("1 if 1 else ", 80000) + "1"}) {
    EXPECT_EQ(within_limits([&] {
                const auto read = ir::parse_param("w=" + value);
                EXPECT_FALSE(read.ok());
                EXPECT_LT(read.error().message.size(), 200U);
              }),
              "");
  }
}

std::vector<Hostile> operators() {
  return {
      {"Sum", filled("pattern p { score ", "s + ", "s; }")},
      {"Minus", filled("pattern p { score ", "-", "s; }")},
      {"Complements", filled("pattern p { keep ", "!", "all; }")},
      {"Unions", filled("pattern p { keep ", "all|", "all; }")},
      {"Differences", filled("pattern p { keep ", "all-", "all; }")},
      {"Comparisons", filled("pattern p { keep where(", "q<", "k); }")},
      {"Nots", filled("pattern p { keep where(", "not ", "q == k); }")},
      {"Ands", filled("pattern p { keep where(", "q<k and ", "q == k); }")},
      {"Indices", filled("pattern p { score s", "[0]", "; }")},
      {"OnlyOperators", filled("", "+-*/%&|!<>=", "")},
      {"Semicolons", filled("pattern p { ", ";", " }")},
      {"Choices", filled("pattern p { score ", "s if q else ", "s; }")},
      {"ChoicesOfC", filled("pattern p { score ", "q ? s : ", "s; }")},
      {"Powers", filled("pattern p { score ", "s ** ", "2; }")},
      {"Conditions", filled("pattern p { keep where(", "causal and ", "causal); }")},
      {"Assignments", filled("pattern p { keep window(", "a=1,", "1); }")},
      {"Unclosed", filled("pattern p { ", "keep window(3,0;", " }")},
      {"UnclosedLong", in_pattern("keep window(" + repeat("1,", 500000) + ";")},
      {"LongestChain", in_pattern("score " + repeat("s + ", 1000) + "s;")},
  };
}

std::vector<Hostile> lists() {
  return {
      {"LongList", filled("pattern p { keep where(q in [", "1,", "1]); }")},
      {"ManyArguments", filled("pattern p { keep window(", "1,", "1); }")},
      {"ManyLists", in_pattern(repeat("keep where(q in " + kLong1024 + "); ", 300))},
      {"ManyMemberships", in_pattern("keep where(" + repeat("q in " + kDistinct1024 + " or ", 150) + "q == k);")},
      {"ListTimesList",
       in_pattern("keep where(any(x in " + kLong1024 + ": any(y in " + kLong1024 + ": q == x * y)));")},
      {"SumOverSums", in_pattern("keep where(q < sum(x in " + kLong1024 + ": sum(y in " + kLong1024 + ": x * y)));")},
      {"HugeRange", in_pattern("keep where(any(x in 0..1000000000: q == x));")},
      {"RangeOfRanges", in_pattern("keep where(any(x in 0..1024: q in 0..1000000000000));")},
      {"ManyParameters",
       "pattern p(" + listed(20000, [](auto i) { return fmt::format("a{}: int = 1, ", i); }) + "z: int = 1) { }"},
      {"ManyAxes", filled("pattern p { input x: f32[", "1, ", "1]; score s + x[0]; }")},
      {"ManyGridAxes", filled("pattern p { grid ", "1, ", "1; branch axial; }")},
      {"ManyScheduleKeys", filled("pattern p { schedule { ", "tile_q: 64; ", "} }")},
  };
}

std::vector<Hostile> statements() {
  const auto numbered = [](const char* layout) {
    return [layout](std::size_t i) { return fmt::format(fmt::runtime(layout), i); };
  };
  return {
      {"Branches4096", in_pattern(listed(4096, numbered("branch window({}, 0); ")))},
      {"Branches4096Union", in_pattern(listed(4096, numbered("branch window({}, 0); ")) + "combine union;")},
      {"Branches4096Alike", in_pattern(repeat("branch window(3, 0) & lag(2); ", 4096) + "combine union;")},
      {"Branches4096OnHeads", in_pattern(listed(4096, numbered("branch window({0}, 0) on heads {0}..5000; ")))},
      {"Branches4097", in_pattern(listed(4097, numbered("branch window({}, 0); ")))},
      {"BranchesTimesKeeps",
       in_pattern(listed(4096, numbered("branch window({}, 0); ")) + listed(4096, numbered("keep window({}, 0); ")))},
      {"BranchesTimesLongKeep", in_pattern(listed(4096, numbered("branch lag({} + 1); ")) + "keep where(" +
                                           repeat("q != k + 1 and ", 500) + "q != k);")},
      {"DilatedBranches",
       in_pattern(repeat("branches dilated(segments: " + kDistinct1024 + ", rates: " + kLong1024 + "); ", 4))},
      {"DilatedOnRanges",
       in_pattern("branches dilated(segments: " + kDistinct1024 + ", rates: " + kLong1024 + ", heads: [" +
                  listed(1023, [](auto i) { return fmt::format("{}..{}, ", i, i + 1); }) + "1023..1024]);")},
      {"DilatedOnRangesBackwards",
       in_pattern("branches dilated(segments: " + kDistinct1024 + ", rates: " + kLong1024 + ", heads: partial([" +
                  listed(1023, [](auto i) { return fmt::format("{}..{}, ", 5000 - i, 5001 - i); }) + "0..1]));")},
      {"ManyKeeps", filled("pattern p { ", "keep all;", " }")},
      {"ManyDifferentKeeps", in_pattern(listed(40000, numbered("keep window({}, 0); ")))},
      {"ManyInputs", in_pattern(listed(30000, numbered("input x{}: f32[keys]; ")))},
      {"ManyPatterns", listed(40000, numbered("pattern p{} {{ }}\n"))},
      {"ManyPatternsOfALet", listed(20000, numbered("pattern p{} {{ let a = all; keep a; }}\n"))},
      {"ManyConstants", listed(40000, numbered("const c{} = 1;\n"))},
      {"ChainedConstants", "const c0 = 1;\n" +
                               listed(30000, [](auto i) { return fmt::format("const c{} = c{};\n", i + 1, i); }) +
                               "pattern p { keep window(c30000, 0); }"},
      {"WrongStatements", filled("pattern p { ", "kep all;", " }")},
      {"UnknownWords", filled("pattern p { ", "keep nothing;", " }")},
  };
}

std::vector<Hostile> names() {
  return {
      {"DoublingSets", doubling("causal", "|", "keep x200;")},
      {"DoublingDifferentSets", doubling("causal", "- !", "keep x200;")},
      {"DoublingNumbers", doubling("q", "+", "keep where(x200 < k);")},
      {"DoublingScores", doubling("s", "*", "score x200;")},
      {"DoublingConditions", doubling("q == k", "==", "keep where(x200);")},
      {"DoublingAtTheLimit", in_pattern(listed(11,
                                               [](auto i) {
                                                 return i == 0 ? std::string("let x0 = s + 1; ")
                                                               : fmt::format("let x{0} = x{1} * x{1}; ", i, i - 1);
                                               }) +
                                        "score x10;")},
      {"UsesThatDouble", multiplying_uses("keep all;")},
      {"UsesThatDoubleBranches", multiplying_uses("branch causal;")},
      {"UsesThatDoubleLets", multiplying_uses("let a = causal;")},
      {"UsesInALoop", "pattern a { use b(); } pattern b { use a(); }"},
      {"LongChainOfUses",
       listed(20000, [](auto i) { return fmt::format("pattern p{} {{ use p{}(); }}\n", i, i + 1); }) +
           "pattern p20000 { }"},
      {"LongName", "pattern " + std::string(kMiB - 100, 'x') + " { }"},
      {"LongUnknownName", in_pattern("keep " + std::string(kMiB - 100, 'x') + ";")},
      {"LongNumber", in_pattern("score " + std::string(kMiB - 100, '1') + ";")},
      {"LongReal", in_pattern("score s * 0." + std::string(kMiB - 100, '1') + ";")},
      {"LargeExponent", in_pattern("score s * 1e" + std::string(kMiB - 100, '9') + ";")},
      {"GrowingConstants", "const c0 = 2;\n" +
                               listed(60, [](auto i) { return fmt::format("const c{0} = c{1} * c{1};\n", i + 1, i); }) +
                               "pattern p { keep window(c60, 0); }"},
  };
}

std::vector<Hostile> bytes_of_all_kinds() {
  return {
      {"LongComment", "pattern p { keep all; } #" + std::string(kMiB - 100, 'x')},
      {"ManyComments", filled("", "#\n", "pattern p { }")},
      {"CommentsBetweenWords", filled("pattern p { keep all", " # c\n", "; }")},
      {"CommentsInAList", filled("pattern p { keep where(q in [1", " # c\n, 1", "]); }")},
      {"Blanks", filled("pattern p { keep all", " ", "; }")},
      {"Lines", filled("pattern p { keep all", "\n", "; }")},
      {"Tabs", filled("pattern p { keep", "\t", "all; }")},
      {"CarriageReturns", filled("pattern p { keep all", "\r\n", "; }")},
      {"Zeroes", std::string(kMiB - 1, '\0')},
      {"Noise", bytes(kMiB - 1)},
      {"TooMuchNoise", bytes(10 * kMiB)},
      {"HalfCharacters", filled("pattern p { ", "\xC3", " }")},
      {"OverlongCharacters", filled("pattern p { ", "\xC0\xAF", " }")},
      {"Surrogates", filled("pattern p { ", "\xED\xA0\x80", " }")},
      {"WideCharacters", filled("pattern p { ", "\xF0\x9F\x8E\x89", " }")},
      {"CommentOfHalfCharacters", filled("# ", "\xFF\xFE", "\npattern p { }")},
      {"Marks", filled("", "\xEF\xBB\xBF", "pattern p { }")},
      {"Nothing", ""},
  };
}

std::vector<Hostile> all() {
  std::vector<Hostile> out;
  for (auto* family : {&nesting, &operators, &lists, &statements, &names, &bytes_of_all_kinds}) {
    for (auto& text : family()) out.push_back(std::move(text));
  }
  return out;
}

class HostileText : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileText, EndsWithinLimits) {
  EXPECT_EQ(within_limits([] { read(GetParam().text); }), "");
}

INSTANTIATE_TEST_SUITE_P(, HostileText, ::testing::ValuesIn(all()), [](const auto& of) { return of.param.name; });

/// The limits must be able to fail.
TEST(Limits, SeeTimeMemoryAndDeath) {
  EXPECT_EQ(within_limits([] {}), "");
  EXPECT_NE(within_limits([] { std::abort(); }), "");
  const auto endless = [] {
    for (volatile bool on = true; on;) {
    }
  };
  EXPECT_NE(within_limits(endless, 0.01), "");
#ifndef WEFT_SANITIZED
  EXPECT_NE(within_limits([] { std::vector<char>(300 * kMiB, 'x').back() = 'y'; }), "");
#endif
}

}  // namespace
}  // namespace weft::test
