#include "compiler/ir/lower.h"
#include "compiler/ir/check.h"

#include "compiler/ir/never_holds.h"
#include "dsl/parse.h"
#include "tests/support/places.h"
#include "tests/support/random_pattern.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace weft::ir {
namespace {

std::string errors_of(const Error& error, const Source& source) {
  std::string out = error.message + "\n";
  for (const auto& d : error.diagnostics) out += render(d, source);
  return out;
}

struct Lowered {
  Result<Pattern> pattern;
  std::vector<Diagnostic> warnings;
  std::string trouble;  ///< as the user would see it
};

Lowered lower_text(const std::string& text, const Params& params = {}, const std::string& name = {}) {
  const Source source{"test.weft", text};
  const auto file = dsl::parse(source);
  if (!file.ok()) return {file.error(), {}, errors_of(file.error(), source)};
  for (const auto& d : ir::check(file.value(), source)) {
    if (d.severity == Severity::error) return {user_error({d}), {}, render(d, source)};
  }
  std::vector<Diagnostic> warnings;
  auto pattern = lower(file.value(), name.empty() ? file.value().patterns.back().name : name, params, &warnings);
  std::string trouble = pattern.ok() ? "" : errors_of(pattern.error(), source);
  return {std::move(pattern), std::move(warnings), std::move(trouble)};
}

/// The lowered pattern's body, one statement after another, without what is always there.
std::string body(const std::string& statements, const Params& params = {}) {
  const Lowered lowered = lower_text(
      statements.find("pattern") == std::string::npos ? "pattern p { " + statements + " }" : statements, params);
  if (!lowered.pattern.ok()) return lowered.trouble;
  std::string out;
  std::istringstream lines(print(lowered.pattern.value()));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ") && line != "  tokens any;" && line != "  combine joint;") out += line.substr(2) + "\n";
  }
  return out;
}

std::vector<std::string> codes(const std::string& text, const Params& params = {}) {
  const Lowered lowered = lower_text(text, params);
  std::vector<std::string> out;
  if (!lowered.pattern.ok()) {
    for (const auto& d : lowered.pattern.error().diagnostics) out.push_back(d.code);
    if (out.empty()) out.push_back(lowered.pattern.error().message);
  }
  for (const auto& d : lowered.warnings) out.push_back(d.code);
  return out;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Lower, EveryPublishedPattern) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::in_checkout("tests/patterns"))) {
    const Source source{entry.path().string(), read(entry.path())};
    const auto file = dsl::parse(source);
    ASSERT_TRUE(file.ok()) << errors_of(file.error(), source);
    for (const auto& def : file.value().patterns) {
      std::vector<Diagnostic> warnings;
      const auto pattern = lower(file.value(), def.name, {}, &warnings);
      ASSERT_TRUE(pattern.ok()) << def.name << ": " << errors_of(pattern.error(), source);
      EXPECT_TRUE(warnings.empty()) << def.name << ": " << render(warnings[0], source);
      ++count;
      // The text of a pattern is a pattern that means the same.
      const Lowered again = lower_text(print(pattern.value()));
      ASSERT_TRUE(again.pattern.ok()) << again.trouble << print(pattern.value());
      EXPECT_TRUE(same(pattern.value(), again.pattern.value()))
          << print(pattern.value()) << print(again.pattern.value());
    }
  }
  EXPECT_GT(count, 20);
}

TEST(Lower, RandomPatternsSurviveTheirText) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const auto problem = test::random_problem(seed);
    const auto& branches = problem.pattern.branches;
    const auto empty = [](const Branch& branch) { return keeps_nothing(*branch.set); };
    if (std::all_of(branches.begin(), branches.end(), empty)) continue;
    const Lowered again = lower_text(test::describe(problem));
    ASSERT_TRUE(again.pattern.ok()) << again.trouble;
    EXPECT_TRUE(same(problem.pattern, again.pattern.value()))
        << test::describe(problem) << print(again.pattern.value());
  }
}

TEST(Lower, ConstantsParametersAndLets) {
  EXPECT_EQ(body("const W = 4; pattern p(c: int = W * 2) { let near = window(c, W); branch near & causal; }"),
            "branch window(8, 4) & causal;\n");
  EXPECT_EQ(body("pattern p(c: int = 8) { branch window(c, 0); }", {{"c", std::int64_t{3}}}), "branch window(3, 0);\n");
  EXPECT_EQ(body("pattern p(c: real) { score s * c; }", {{"c", std::int64_t{3}}}), "branch all;\nscore s * 3.0;\n");
  EXPECT_EQ(body("pattern p(on: bool = false) { branch where(on or k == q); }"), "branch where(k == q);\n");
  EXPECT_EQ(body("pattern p(w: [int] = [1, 2]) { branch sink(w[0] + len(w)); }", {{"w", std::vector<std::int64_t>{5}}}),
            "branch sink(6);\n");
}

TEST(Lower, ExpressionsUnroll) {
  EXPECT_EQ(body("branch where(0 <= q - k < 256);"), "branch where(0 <= q - k and q - k < 256);\n");
  EXPECT_EQ(body("branch where(q > k >= 1);"), "branch where(k < q and 1 <= k);\n");
  EXPECT_EQ(body("branch where(q - k in [1, 4]);"), "branch where(q - k == 1 or q - k == 4);\n");
  EXPECT_EQ(body("branch where(any(r in [1, 2]: abs(q - k) == r));"),
            "branch where(abs(q - k) == 1 or abs(q - k) == 2);\n");
  EXPECT_EQ(body("branch where(all(r in 0..3: q != r));"), "branch where(q != 0 and q != 1 and q != 2);\n");
  EXPECT_EQ(body("branch where(k < sum(r in [1, 2, 3]: r * r));"), "branch where(k < 14);\n");
  EXPECT_EQ(body("branch where(k == [3, 5, 9][h % 3]);"),
            "branch where(k == select(h % 3 <= 0, 3, select(h % 3 <= 1, 5, 9)));\n");
  EXPECT_EQ(body("score softcap(s, 30) + alibi(h) * (k - q);"),
            "branch all;\nscore 30.0 * tanh(s / 30.0) + alibi(h) * (k - q);\n");
  EXPECT_EQ(body("const N = -7; pattern p { branch where(q == N / 2 + N % 3); }"), "branch where(q == -2);\n");
}

/// `check` knows a type, and the value has that type.
TEST(Lower, ValuesHaveTheTypesThatWereChecked) {
  EXPECT_EQ(body("score s + softcap(h, 30);"), "branch all;\nscore s + 30.0 * tanh(h / 30.0);\n");
  EXPECT_EQ(body("score s + [1, 2.5][h] / 2;"), "branch all;\nscore s + select(h <= 0, 1.0, 2.5) / 2.0;\n");
  EXPECT_EQ(body("pattern p(l: [real] = [1, 2]) { score s * (l[0] / 4); }"), "branch all;\nscore s * 0.25;\n");
  EXPECT_EQ(body("pattern p(l: [int] = []) { score s + (1 + sum(x in l: 0.5 * x)) / 2; }"),
            "branch all;\nscore s + 0.5;\n");
  EXPECT_EQ(body("let r = [0..4]; keep sink(len(r));"), "branch sink(1);\n");
  EXPECT_EQ(body("pattern g { grid 4, 4; } pattern p { let n = neighborhood(size: [3, 2]); use g(); keep n; }"),
            "grid 4, 4;\n"
            "branch neighborhood(size: [3, 2], dilation: [1, 1], stride: [1, 1], causal: [false, false]);\n");
}

/// What is only known while a kernel runs is refused where more must be known, and before anything is lowered.
TEST(Lower, InputsAndVariablesAreNotReadWhereTheyHaveNoValue) {
  for (const char* text : {
           "pattern p { input t: i32[heads]; keep dilated(segment: 8, rate: 2, phase: t[h]); }",
           "pattern p { input t: i32[heads]; let o = t[h]; keep dilated(segment: 8, rate: 2, phase: o); }",
           "pattern p { input t: i32[4]; keep sink(t[0]); }",
           "pattern p { keep where(q - k in 0..h); }",
       }) {
    EXPECT_EQ(codes(text), std::vector<std::string>{"E0233"}) << text;
  }
}

/// Also of a text that nobody checked.
TEST(Lower, RefusesWhatIsWrongByItself) {
  const auto file = dsl::parse({"wrong.weft", "pattern p { input t: f32[heads, keys]; score s + t[k]; }"});
  const auto pattern = lower(*file, "p", {});
  ASSERT_FALSE(pattern.ok());
  EXPECT_EQ(pattern.error().diagnostics.at(0).code, "E0226");
}

TEST(Lower, SetsAndPrecedence) {
  EXPECT_EQ(body("branch window(8, 8) - strided(3, phase: 1) & segment(16) | !segment(16) & lag(5);"),
            "branch window(8, 8) - strided(3, phase: 1) & segment(16) | !segment(16) & lag(5);\n");
  EXPECT_EQ(body("branch causal; branch all; keep segment(4); keep sink(2) | lag(2);"),
            "branch causal;\nbranch all;\nkeep segment(4);\nkeep sink(2) | lag(2);\n");
  EXPECT_EQ(body("branch dilated(segment: 8, rate: 3, phase: 7, queries: all);"),
            "branch dilated(segment: 8, rate: 3, phase: 1, queries: all);\n");
  EXPECT_EQ(body("grid 9, 11; branch neighborhood(size: [5, 4], dilation: [1, 2]);"),
            "grid 9, 11;\n"
            "branch neighborhood(size: [5, 4], dilation: [1, 2], stride: [1, 1], causal: [false, false]);\n");
  EXPECT_EQ(body("branch neighborhood(7, causal: true);"),
            "branch neighborhood(size: 7, dilation: 1, stride: 1, causal: true);\n");
}

TEST(Lower, NoKeysDrawnIsNothing) {
  EXPECT_EQ(body("branch causal | random(0, seed: 7);"), "branch causal;\n");
  EXPECT_EQ(codes("pattern p { branch random(0); }"), std::vector<std::string>{"E0321"});
}

TEST(Lower, TopIsCausalBesideCausal) {
  EXPECT_EQ(body("branch blocks(64, top(8, by: pooled)); keep causal;"),
            "branch blocks(64, top(8, by: pooled, causal: true)) & causal;\n");
  EXPECT_EQ(body("branch blocks(64, top(8, by: pooled)) | sink(4);"),
            "branch blocks(64, top(8, by: pooled, causal: false)) | sink(4);\n");
  EXPECT_EQ(body("branch blocks(64, top(8, by: pooled, causal: false)) & causal;"),
            "branch blocks(64, top(8, by: pooled, causal: false)) & causal;\n");
}

TEST(Lower, BranchesGetTheirPhases) {
  EXPECT_EQ(body("branches dilated(segments: [8, 16], rates: [1, 2]);"),
            "branch dilated(segment: 8, rate: 1, phase: 0);\nbranch dilated(segment: 16, rate: 2, phase: h % 2);\n");
  EXPECT_EQ(body("branches dilated([8, 16, 32], [1, 2, 2], heads: groups);"),
            "branches dilated(segments: [8, 16, 32], rates: [1, 2, 2], phase: [0, 1, 0][i], heads: groups);\n");
  EXPECT_EQ(body("branches dilated([8, 16], [1, 2], phase: h / ((H + rate - 1) / rate), queries: all);"),
            "branch dilated(segment: 8, rate: 1, phase: h / H, queries: all);\n"
            "branch dilated(segment: 16, rate: 2, phase: h / ((H + 1) / 2), queries: all);\n");
  EXPECT_EQ(body("heads 4; branches dilated([8, 16], [4, 4], heads: [0..1, 1..4]);"),
            "heads 4;\n"
            "branch dilated(segment: 8, rate: 4, phase: 0) on heads 0..1;\n"
            "branch dilated(segment: 16, rate: 4, phase: 1) on heads 1..4;\n");
  EXPECT_EQ(body("branches dilated([8], [2], heads: partial([1..2]));"),
            "branch dilated(segment: 8, rate: 2, phase: 0) on heads 1..2;\n");
}

TEST(Lower, UseTakesTheStatements) {
  const std::string base =
      "pattern base(w: int = 4) { input t: i32[batch]; let near = window(w, 0); keep near; dropout 0.5; } ";
  EXPECT_EQ(
      body(base + "pattern p(w: int = 9) { use base(2); keep causal & lengths(t); branch near; branch sink(w); }"),
      "input t: i32[batch];\n"
      "branch window(2, 0);\n"
      "branch sink(9);\n"
      "keep window(2, 0);\n"
      "keep causal;\n"
      "keep lengths(t);\n"
      "dropout 0.5;\n");
}

TEST(Lower, InputsTakeTheBlockSizeOfTheirUse) {
  const Lowered lowered =
      lower_text("pattern p { input t: u8[heads, blocks, blocks]; branch blocks(8, blocks(4, table(t))); }");
  ASSERT_TRUE(lowered.pattern.ok()) << lowered.trouble;
  EXPECT_EQ(lowered.pattern.value().inputs[0].block, 32);
  EXPECT_EQ(codes("pattern p { input t: u8[blocks, blocks]; branch blocks(8, table(t)) | blocks(4, table(t)); }"),
            std::vector<std::string>{"E0319"});
  EXPECT_EQ(codes("pattern p { input t: u8[blocks]; }"), std::vector<std::string>{"E0319"});
  // Blocks of one token are blocks, as a block size from outside may have it.
  EXPECT_EQ(codes("pattern p { input t: u8[blocks, blocks]; branch blocks(1, table(t)); }"),
            std::vector<std::string>{});
}

TEST(Lower, EveryErrorThatValuesReveal) {
  const std::pair<const char*, const char*> cases[] = {
      {"E0301", "pattern p(w: int) { branch sink(w); }"},
      {"E0304", "pattern p(r: [int] = [1]) { branches dilated([4, 8], r); }"},
      {"E0304", "pattern p(r: [int] = [1], w: [int] = [4]) { branches dilated(w, r, heads: partial([0..1, 2..3])); }"},
      {"E0305", "pattern p(r: int = 0) { branches dilated([4], [r]); }"},
      {"E0305", "pattern p(w: int = 0) { branch segment(w); }"},
      {"E0306", "pattern p(o: int = 1) { branch dilated(segment: 8, rate: 2, phase: h - o); }"},
      {"E0306", "pattern p(o: int = 7) { heads 8; branches dilated([8], [2], phase: 3 - h / (8 - o)); }"},
      {"E0307", "pattern p(size: int = 0) { branch blocks(size, causal); }"},
      {"E0308", "pattern p(g: int = 3) { heads 8 kv g; }"},
      {"E0309", "pattern p(d: real = 1) { dropout d; }"},
      {"E0310", "pattern p(z: int = 0) { branch where(q / z == k); }"},
      {"E0310", "pattern p(z: real = 0) { score s / z; }"},
      {"E0311", "pattern p(z: int = 9223372036854775807) { branch where(q < z + 1); }"},
      {"E0312", "pattern p(w: [int] = [1, 2], i: int = 2) { branch sink(w[i]); }"},
      {"E0312", "pattern p(n: int = 8) { input t: f32[n]; score s + t[min(q, 0) - 1]; }"},
      {"E0312", "pattern p(n: int = 8) { input t: f32[n]; score s + t[n]; }"},
      {"E0313", "pattern p(n: int = -1) { branch sink(n); }"},
      {"E0313", "pattern p(n: int = 9223372036854775807) { branch window(n, 0); }"},
      {"E0313", "pattern p(n: int = 0) { heads n; }"},
      {"E0313", "pattern p(far: real = inf) { scale far; }"},
      {"E0313", "pattern p(t: int = 8) { branch neighborhood(7, stride: t); }"},
      {"E0313", "pattern p(d: int = 4) { grid 9, 9; branch neighborhood(size: [3, 3], dilation: [1, d]); }"},
      {"E0316", "pattern p(n: int = 2000) { branch where(any(i in 0..n: q == i)); }"},
      {"E0317", "pattern p(n: int = 2) { branches dilated([8, 8], [1, 1], heads: [0..2, 1..n + 2]); }"},
      {"E0317", "pattern p(n: int = 3) { branches dilated([8, 8], [1, 1], heads: [0..2, n..4]); }"},
      {"E0317", "pattern p(n: int = 9) { heads 8; branch causal on heads 0..n; }"},
      {"E0317", "pattern p(n: int = 0) { branch causal on heads 0..n; }"},
      {"E0320", "pattern p(n: [int] = [3, 3, 3]) { grid 9, 9; branch neighborhood(size: n); }"},
      {"E0321", "pattern p(n: int = 0) { branch where(n > 0) & causal; }"},
      {"E0321", "pattern p { keep where(k < 0); }"},
      {"E0321", "pattern p { keep where(h + 2 * k <= -1); }"},
      {"E0321", "pattern p { branch causal & where(k <= q - 3 and q < k); branch window(-3, 2); }"},
      {"E0321", "pattern p { branch blocks(8, where(n_k < 1) | where(q == k and q - k == 1)); }"},
      {"W0301", "pattern p { branch where(k < 0); branch causal; }"},
      {"W0301", "pattern p(n: int = 0) { branch sink(n); branch causal; }"},
      {"W0301", "pattern p(n: int = 0) { branch where(n > 0); branch causal; }"},
      {"W0301", "pattern p { branch window(3, 0); branch window(3, 0); combine union; }"},
      {"W0302", "pattern p(d: int = 1) { keep where(k <= q - d); }"},
      {"W0302", "pattern p(d: int = 1) { keep where(k >= q + d); }"},
  };
  for (const auto& [code, text] : cases) {
    EXPECT_EQ(codes(text), std::vector<std::string>{code}) << text;
  }
}

/// Positions of queries may be negative, and what is not proven is not said.
TEST(Lower, NothingIsKeptOnlyWhereThatIsProven) {
  for (const char* set : {"where(q < 0)", "where(k <= q - 3 and q < k + 4)", "where(q == 20000)",
                          "where(q * q < 0 or k == q)", "where(9223372036854775807 * k < k - 1)"}) {
    EXPECT_TRUE(lower_text("pattern p { keep " + std::string(set) + "; }").pattern.ok()) << set;
  }
}

/// Text that these parameters never evaluate has no values that could be wrong.
TEST(Lower, WhatIsNeverEvaluatedIsNotWrong) {
  for (const char* text : {
           "pattern p(z: int = 0) { keep where(z > 0 and q % z == 0 or k <= q); }",
           "pattern p(z: int = 0) { keep where(z == 0 or q / z == k); }",
           "pattern p(z: real = 0) { score select(z > 0, s / z, s); }",
           "pattern p(w: [int] = [3]) { branch sink(select(len(w) > 1, w[1], 4)); }",
           "pattern p(z: int = 9223372036854775807) { branch sink(select(z < 9, z + 1, 4)); }",
           "pattern p(n: int = 0) { input t: f32[9]; score s + select(n > 0, t[n - 1], 0); }",
           "pattern p(n: int = 9999) { keep where(n > 999 or any(i in 0..n: q == i)); }",
           "const n = 0; pattern p { keep where(n > 0 and q % n == 0 or k <= q); }",
       }) {
    EXPECT_EQ(codes(text), std::vector<std::string>{}) << text;
  }
  EXPECT_EQ(codes("pattern p(z: int = 0) { keep where(q % z == 0 and z > 0); }"), std::vector<std::string>{"E0310"});
  EXPECT_EQ(body("let a = select(1 > 2, 1 / 0.5, 3); score s * a;"), "branch all;\nscore s * 3.0;\n");
}

/// The text says which blocks an input has, also where nothing is left of its use.
TEST(Lower, BlockSizesAreThoseOfTheText) {
  for (const char* use : {
           "keep blocks(64, table(m)) | where(dense);",
           "keep blocks(8, blocks(8, table(m)) & where(not dense)) | causal;",
           "let x = table(m); keep blocks(64, x) | where(dense);",
           "let x = blocks(64, table(m)); branch causal | (x - where(dense));",
           "keep causal | blocks(64, where(select(dense, true, m[q, k] > 0)));",
           "keep causal | blocks(64, where(any(r in none: m[q, k] == r)));",
           "let y = m[q, k]; keep causal | blocks(64, where(not dense and y == 1));",
       }) {
    const Lowered lowered = lower_text(
        "pattern p(dense: bool = true, none: [int] = []) { input m: u8[blocks, blocks]; " + std::string(use) + " }");
    ASSERT_TRUE(lowered.pattern.ok()) << use << lowered.trouble;
    EXPECT_EQ(lowered.pattern.value().inputs[0].block, 64) << use;
    const Lowered again = lower_text(print(lowered.pattern.value()));
    ASSERT_TRUE(again.pattern.ok()) << print(lowered.pattern.value()) << again.trouble;
    EXPECT_TRUE(same(lowered.pattern.value(), again.pattern.value())) << print(again.pattern.value());
  }
}

TEST(Lower, ParametersFromOutside) {
  const std::string text =
      "pattern p(rates: [int] = [1], cap: real = 2) { branches dilated([8], rates); score s * cap; }";
  EXPECT_EQ(codes(text, {{"rats", std::int64_t{1}}}), std::vector<std::string>{"E0302"});
  EXPECT_EQ(codes(text, {{"rates", std::int64_t{1}}}), std::vector<std::string>{"E0303"});
  EXPECT_EQ(codes(text, {{"rates", std::vector<double>{1.5}}}), std::vector<std::string>{"E0303"});
  EXPECT_EQ(codes(text, {{"cap", true}}), std::vector<std::string>{"E0303"});
  EXPECT_EQ(codes(text, {{"rates", std::vector<std::int64_t>(1025, 1)}}), std::vector<std::string>{"E0316"});
  EXPECT_EQ(codes(text, {{"rates", std::vector<std::int64_t>{1, 2}}}), std::vector<std::string>{"E0304"});
}

TEST(Lower, ManyFindingsInOneRun) {
  EXPECT_EQ(codes("pattern p(z: int = 0) { branch segment(z); keep blocks(z, causal); dropout z + 1; }"),
            (std::vector<std::string>{"E0305", "E0307", "E0309"}));
}

/// Small texts that would grow without end are refused, and soon.
TEST(Lower, WhatMultipliesIsLimited) {
  std::string lets = "let a0 = q + k; ";
  for (int i = 0; i < 40; ++i)
    lets += "let a" + std::to_string(i + 1) + " = a" + std::to_string(i) + " * a" + std::to_string(i) + "; ";
  EXPECT_EQ(codes("pattern p { " + lets + "branch where(a40 == 0); }").front(), "E0318");
  std::string sets = "let a0 = causal | sink(4); ";
  for (int i = 0; i < 40; ++i)
    sets += "let a" + std::to_string(i + 1) + " = a" + std::to_string(i) + " - !a" + std::to_string(i) + "; ";
  EXPECT_EQ(codes("pattern p { " + sets + "branch a40; }").front(), "E0318");
  const std::string nested = "any(x in 0..1000: any(y in 0..1000: any(z in 0..1000: q == x * y * z)))";
  EXPECT_EQ(codes("pattern p { branch where(" + nested + "); }").front(), "E0318");

  std::string eight = "pattern p8 { branches dilated([1, 2, 3, 4, 5, 6, 7, 8], [1, 1, 1, 1, 1, 1, 1, 1]); } ";
  for (int i = 8; i < 8192; i *= 8) {
    eight += "pattern p" + std::to_string(i * 8) + " { ";
    for (int j = 0; j < 8; ++j) eight += "use p" + std::to_string(i) + "(); ";
    eight += "} ";
  }
  EXPECT_EQ(lower_text(eight, {}, "p4096").trouble, "");
  const Lowered over = lower_text(eight + "pattern q { use p4096(); branch causal; }", {}, "q");
  ASSERT_FALSE(over.pattern.ok());
  EXPECT_EQ(over.pattern.error().diagnostics[0].code, "E0315");
}

/// Asked for each end of each operand anew, the bounds of an index took as long as 2^depth.
TEST(Lower, BoundsOfDeepIndicesAreQuick) {
  std::string index = "q";
  for (int i = 1; i <= 200; ++i) index = "(" + index + " + abs(-k))";
  EXPECT_NE(body("input t: f32[keys]; score s + t[" + index + "];").find("score"), std::string::npos);
}

TEST(ParseParam, TheLanguagesOwnLiterals) {
  const auto value = [](const char* text) {
    auto param = parse_param(text);
    return param.ok() ? param.value().second : ParamValue(std::int64_t{-1});
  };
  EXPECT_EQ(parse_param("w=8k").value().first, "w");
  EXPECT_EQ(value("w=8k"), ParamValue(std::int64_t{8192}));
  EXPECT_EQ(value("w=-3"), ParamValue(std::int64_t{-3}));
  EXPECT_EQ(value("w=0.5"), ParamValue(0.5));
  EXPECT_EQ(value("w=true"), ParamValue(true));
  EXPECT_EQ(value("w=[1, 2k]"), ParamValue(std::vector<std::int64_t>{1, 2048}));
  EXPECT_EQ(value("w=[1, 2.5]"), ParamValue(std::vector<double>{1, 2.5}));
  EXPECT_EQ(value("w=[]"), ParamValue(std::vector<std::int64_t>{}));
  for (const char* bad : {"w", "=1", "w=", "w=x", "w=1; const y = 2", "w=causal", "w=[1", "w=q", "w=[true]", "w=1/0"}) {
    EXPECT_FALSE(parse_param(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace weft::ir
