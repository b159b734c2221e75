#include "dsl/words.h"

#include "dsl/operators.h"
#include "dsl/value.h"
#include "texts.h"

#include <gtest/gtest.h>

#include <limits>

namespace weft::test {
namespace {

using dsl::Operator;
using dsl::Trouble;
using dsl::Value;

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

TEST(Values, AreThoseOfTheLanguage) {
  const auto value = [](Operator op, std::int64_t a, std::int64_t b) {
    return *fold(op, Value{a}, Value{b}).value->integer();
  };
  EXPECT_EQ(value(Operator::add, 5, -7), -2);
  EXPECT_EQ(value(Operator::subtract, 5, 7), -2);
  EXPECT_EQ(value(Operator::multiply, 5, -7), -35);
  EXPECT_EQ(value(Operator::divide, -7, 2), -4);
  EXPECT_EQ(value(Operator::divide, 7, -2), -4);
  EXPECT_EQ(value(Operator::divide, -7, -2), 3);
  EXPECT_EQ(value(Operator::modulo, -7, 2), 1);
  EXPECT_EQ(value(Operator::modulo, -7, -2), 1);
}

TEST(Values, RoundToIntegers) {
  const auto rounded = [](const char* name, double x) {
    return *dsl::fold_function(name, {Value{x}}).value->integer();
  };
  EXPECT_EQ(rounded("floor", -1.5), -2);
  EXPECT_EQ(rounded("ceil", -1.5), -1);
  EXPECT_EQ(rounded("round", -1.5), -2);
  EXPECT_EQ(rounded("round", 2.4), 2);
  EXPECT_EQ(dsl::fold_function("floor", {Value{1e300}}).trouble, Trouble::overflow);
  EXPECT_EQ(dsl::fold_function("round", {Value{std::numeric_limits<double>::infinity()}}).trouble, Trouble::overflow);
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
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
  const auto trouble = [](Operator op, std::int64_t a, std::int64_t b) { return fold(op, Value{a}, Value{b}).trouble; };
  EXPECT_EQ(trouble(Operator::add, largest, 1), Trouble::overflow);
  EXPECT_EQ(trouble(Operator::subtract, smallest, 1), Trouble::overflow);
  EXPECT_EQ(trouble(Operator::multiply, largest, 2), Trouble::overflow);
  EXPECT_EQ(trouble(Operator::divide, smallest, -1), Trouble::overflow);
  EXPECT_EQ(trouble(Operator::modulo, smallest, -1), Trouble::none);
  EXPECT_EQ(trouble(Operator::divide, 1, 0), Trouble::zero_division);
  EXPECT_EQ(fold(Operator::negate, Value{smallest}).trouble, Trouble::overflow);
  EXPECT_EQ(dsl::fold_function("abs", {Value{smallest}}).trouble, Trouble::overflow);
}

}  // namespace
}  // namespace weft::test
