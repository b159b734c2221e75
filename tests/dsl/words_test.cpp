#include "dsl/words.h"

#include "compiler/ir/lower.h"
#include "texts.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

namespace weft::test {
namespace {

TEST(Words, EachStatementIsParsed) {
  const std::vector<std::string> statements = {"heads 8 kv 2;",
                                               "dim 64 value 32;",
                                               "dtype f16;",
                                               "tokens multiple_of 4;",
                                               "grid 3, 4;",
                                               "input x: f32[heads, 3];",
                                               "let x = 3;",
                                               "branch all on heads 0..3;",
                                               "branches dilated(segments: [1], rates: [1]);",
                                               "keep all;",
                                               "combine joint detached;",
                                               "scale 1;",
                                               "score s;",
                                               "sink_logit 0.5 * h;",
                                               "weights sigmoid(s - 2);",
                                               "dropout 0.1;",
                                               "ring any zigzag;",
                                               "schedule { tile_q: 3; }",
                                               "use q(3);"};
  ASSERT_EQ(statements.size(), dsl::statement_words().size());
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const auto file = parsed(in_pattern(statements[i]));
    ASSERT_EQ(file.patterns.at(0).statements.size(), 1U);
    EXPECT_EQ(file.patterns[0].statements[0].kind, dsl::statement_words()[i].kind);
  }
}

TEST(Words, CannotBeRedefined) {
  for (const char* word :
       {"causal", "window", "min", "any", "q", "n_k", "H", "s", "batch", "f16", "int", "mean", "zigzag"}) {
    const std::string text = std::string("const ") + word + " = 3;";
    EXPECT_EQ(marked(text), std::vector<std::string>{std::string("E0219 '") + word + "'"});
  }
  for (const char* word : {"rate", "i", "size", "seed", "tile_q", "segments", "value", "kv"}) {
    EXPECT_TRUE(marked(std::string("const ") + word + " = 3;").empty()) << word;
  }
}

TEST(Words, OfPatternsAreFree) { EXPECT_TRUE(marked("pattern causal { keep causal; }").empty()); }

/// What one word of every set looks like, so that no row of the table is out of reach.
TEST(Words, EachSetIsUnderstood) {
  const std::vector<std::string> sets = {
      "all",
      "causal",
      "window(3, 0)",
      "segment(8)",
      "dilated(segment: 8, rate: 2, phase: h % rate, queries: all)",
      "strided(3, phase: 1)",
      "lag(2)",
      "sink(4)",
      "global(2)",
      "prefix(3)",
      "neighborhood(size: [3, 3], dilation: 2, stride: [1, 2], causal: [true, false])",
      "blocks(16, causal)",
      "random(3, seed: 7)",
      "axial",
      "document(doc)",
      "lengths(valid)",
      "table(mask)",
      "blocks(8, top(4, by: input(scores), causal: true))",
      "where(q >= k)"};
  EXPECT_EQ(sets.size(), dsl::set_names().size());
  std::string statements =
      "grid 4, 4; input doc: i32[batch, tokens]; input valid: i32[batch]; "
      "input mask: u8[queries, keys]; input scores: f32[batch, heads, blocks, blocks]; ";
  for (const std::string& set : sets) statements += "keep " + set + "; ";
  EXPECT_EQ(marked(in_pattern(statements)), std::vector<std::string>{});
}

TEST(Words, EachFunctionIsUnderstood) {
  const std::string score =
      "score min(s, 1) + max(q, k) + abs(s) + exp(s) + log(s) + sqrt(s) + tanh(s) + sigmoid(s) + softcap(s, 3) + "
      "alibi(h) + select(any([q == k, true]), len([1]), sum([1, 2])) + select(all(x in [1, 2]: q == x), 1, -inf) + "
      "floor(0.5) + ceil(1.5) + round(2) + min(q, k, 3, s) + max(1, 2, 3);";
  EXPECT_EQ(marked(in_pattern(score)), std::vector<std::string>{});
}

/// The text of a constant's value, as a pattern shows it.
std::string value_of(const std::string& text) {
  const dsl::File file = parsed("const value = " + text + "; pattern p { score s + value; }");
  const auto pattern = ir::lower(file, "p", {});
  return pattern.ok() ? ir::print(*pattern->score->args[1]) : pattern.error().diagnostics.at(0).code;
}

TEST(Values, AreThoseOfTheLanguage) {
  for (const auto& [text, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"5 + -7", "-2.0"},
           {"5 - 7", "-2.0"},
           {"5 * -7", "-35.0"},
           {"-7 / 2", "-4.0"},
           {"7 / -2", "-4.0"},
           {"-7 / -2", "3.0"},
           {"-7 % 2", "1.0"},
           {"-7 % -2", "1.0"},
           {"floor(-1.5)", "-2.0"},
           {"ceil(-1.5)", "-1.0"},
           {"round(-1.5)", "-2.0"},
           {"round(2.4)", "2.0"},
           {"min(3, 1.5)", "1.5"},
           {"[1, 2.5][0] / 2", "0.5"},  // a list has items of one type
           {"sum(x in [1, 2.5]: x / 2)", "1.75"},
           {"softcap(0, 1)", "0.0"},
           {"sum([])", "0.0"},
           {"select(1 < 2, 3, 0.5) / 2", "1.5"},
           {"select(0 > 1, 1 / 0, 3)", "3.0"},  // of what is never evaluated nothing is wrong
       })
    EXPECT_EQ(value_of(text), value) << text;
}

TEST(Values, RoundToIntegers) {
  EXPECT_EQ(value_of("floor(1e300)"), "E0311");
  EXPECT_EQ(value_of("round(inf)"), "E0311");
  EXPECT_EQ(marked("const a = 3.0; pattern p { branch window(floor(a / 2), 0); keep sink(floor(inf)); }"),
            std::vector<std::string>{"E0216 'floor(inf)'"});
}

/// What a kernel rounds may be a score or the place of a bias, and chooses no pair.
TEST(Values, RoundInScoresWhatAKernelComputes) {
  const std::string bias = "input bias: f32[8]; input x: f32[1]; ";
  const std::string read = " score s + bias[0] + x[0];";
  for (const auto& fine :
       {std::string("score floor(s) + bias[floor(log(1 + abs(q - k)))] + x[0];"),
        "scale 1.0 / ceil(0.5 * h + 1);" + read, "weights sigmoid(round(s) - 1);" + read,
        "sink_logit floor(x[0]);" + read, std::string("let z = round(0.5 * q); score s + bias[z] + x[0];")})
    EXPECT_EQ(marked(in_pattern(bias + fine)), std::vector<std::string>{}) << fine;
  const auto refused = [&](const std::string& text) { return marked(in_pattern(bias + text)).at(0); };
  EXPECT_EQ(refused("keep where(k < floor(0.5 * q)); score s + bias[0] + x[0];"), "E0213 'floor(0.5 * q)'");
  EXPECT_EQ(refused("keep where(k < ceil(x[0])); score s + bias[0];"), "E0213 'ceil(x[0])'");
  EXPECT_EQ(refused("let z = round(0.5 * q); keep where(k < z); score s + bias[z] + x[0];"), "E0213 'z'");
  EXPECT_EQ(marked(in_pattern("keep window(floor(q / 2), 0);")), std::vector<std::string>{"E0233 'q'"});
}

TEST(Values, TroublesAreNamed) {
  const std::string largest = "9223372036854775807", smallest = "(-9223372036854775807 - 1)";
  const auto trouble = [](const std::string& text) {
    const auto found = marked("const a = " + text + "; pattern p { keep where(a == 0 or k <= q); }");
    return found.empty() ? "none" : found[0].substr(0, found[0].find(' '));
  };
  const std::string overflow = "E0216", zero_division = "E0214";
  EXPECT_EQ(trouble(largest + " + 1"), overflow);
  EXPECT_EQ(trouble(smallest + " - 1"), overflow);
  EXPECT_EQ(trouble(largest + " * 2"), overflow);
  EXPECT_EQ(trouble(smallest + " / -1"), overflow);
  EXPECT_EQ(trouble(smallest + " % -1"), "none");
  EXPECT_EQ(trouble("1 / 0"), zero_division);
  EXPECT_EQ(trouble("-" + smallest), overflow);
  EXPECT_EQ(trouble("abs(" + smallest + ")"), overflow);
}

}  // namespace
}  // namespace weft::test
