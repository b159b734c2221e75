#include "dsl/parse.h"
#include "dsl/printer.h"
#include "texts.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

using Words = std::vector<std::string>;

/// The tree of an expression, in prefix form.
std::string tree(const std::string& expression) {
  const std::string text = print_tree(parsed("const x = " + expression + ";"), dsl::Places::hidden);
  const std::string head = "constant x ";
  return text.substr(head.size(), text.size() - head.size() - 1);
}

TEST(Precedence, OfSets) {
  EXPECT_EQ(tree("A - B & C"), "(- (A) (& (B) (C)))");
  EXPECT_EQ(tree("A | B - C"), "(| (A) (- (B) (C)))");
  EXPECT_EQ(tree("A - B | C"), "(| (- (A) (B)) (C))");
  EXPECT_EQ(tree("A - B - C"), "(- (- (A) (B)) (C))");
  EXPECT_EQ(tree("!A & B"), "(& (prefix ! (A)) (B))");
}

TEST(Precedence, OfNumbersAndBooleans) {
  EXPECT_EQ(tree("a + b * c - d"), "(- (+ (a) (* (b) (c))) (d))");
  EXPECT_EQ(tree("-a * b"), "(* (prefix - (a)) (b))");
  EXPECT_EQ(tree("a / b % c"), "(% (/ (a) (b)) (c))");
  EXPECT_EQ(tree("not a == b and c or d"), "(or (and (prefix not (== (a) (b))) (c)) (d))");
  EXPECT_EQ(tree("a or not b"), "(or (a) (prefix not (b)))");
  EXPECT_EQ(tree("not not a"), "(prefix not (prefix not (a)))");
  EXPECT_EQ(tree("-a[1]"), "(prefix - (index (a) (1)))");
  EXPECT_EQ(tree("a in b and c"), "(and (in (a) (b)) (c))");
  EXPECT_EQ(tree("a .. b + 1"), "(.. (a) (+ (b) (1)))");
  EXPECT_EQ(tree("x in 0..4"), "(in (x) (.. (0) (4)))");
}

TEST(Precedence, ComparisonsChain) {
  EXPECT_EQ(tree("0 <= q - k < 256"), "(<= < (0) (- (q) (k)) (256))");
  EXPECT_EQ(tree("(a < b) == c"), "(== (< (a) (b)) (c))");
  EXPECT_EQ(tree("a == b == c"), "(== == (a) (b) (c))");
}

TEST(Words, AreNotPartsOfNames) {
  EXPECT_EQ(tree("android or notes"), "(or (android) (notes))");
  EXPECT_EQ(tree("[inner, order]"), "(list (inner) (order))");
  EXPECT_EQ(tree("trueish"), "(trueish)");
}

TEST(Numbers, AsWritten) {
  EXPECT_EQ(tree("[8192, 8k, 1m, 0.1, 1e-3, 2E+2, 1e2]"),
            "(list (8192) (8192) (1048576) (real 0.1) (real 0.001) (real 200) (real 100))");
  EXPECT_EQ(tree("[0..2, 2..4]"), "(list (.. (0) (2)) (.. (2) (4)))");
  EXPECT_EQ(tree("9223372036854775807"), "(9223372036854775807)");
  EXPECT_EQ(marked("const x = 9223372036854775808;"), Words{"E0106 '9223372036854775808'"});
  EXPECT_EQ(marked("const x = 9007199254740992m;"), Words{"E0106 '9007199254740992m'"});
  EXPECT_EQ(marked("const x = 1e999;"), Words{"E0106 '1e999'"});
  for (const char* wrong : {"8kb", "1.5k", "0x10", "1e", "12_000"}) {
    EXPECT_EQ(marked(std::string("const x = ") + wrong + ";"), Words{std::string("E0105 '") + wrong + "'"});
  }
}

TEST(Comprehensions, AreTheirOwnNodes) {
  EXPECT_EQ(tree("any(r in rates: abs(q - k) == r)"), "(any r in (rates) (== (call abs (- (q) (k))) (r)))");
  EXPECT_EQ(tree("all(x in xs)"), "(call all (in (x) (xs)))");
  EXPECT_EQ(tree("f(a, n: b)"), "(call f (a) n:(b))");
}

/// Each node's range covers its text: no blanks, no comments, no parentheses around it.
void check_ranges(const dsl::Expr& e, const std::string& text) {
  const std::string covered = text.substr(e.range.begin, e.range.end - e.range.begin);
  ASSERT_FALSE(covered.empty());
  EXPECT_EQ(covered.find_first_of(" \n"), covered.find_first_of(" \n", 1)) << covered;
  EXPECT_FALSE(covered.ends_with(' ') || covered.ends_with('\n')) << covered;
  EXPECT_TRUE(e.outer == e.range || (text[e.outer.begin] == '(' && text[e.outer.end - 1] == ')')) << covered;
  const auto again = parsed("const x = " + covered + ";");
  dsl::File one;
  one.constants.push_back({.name = "x", .name_range = {}, .range = {}, .value = std::make_shared<dsl::Expr>(e)});
  EXPECT_EQ(print_tree(again, dsl::Places::hidden), print_tree(one, dsl::Places::hidden));
  for (const dsl::Arg& arg : e.args) {
    check_ranges(*arg.value, text);
    if (!arg.name.empty()) {
      EXPECT_EQ(text.substr(arg.name_range.begin, arg.name_range.end - arg.name_range.begin), arg.name);
    }
  }
}

TEST(Ranges, CoverWhatTheyMean) {
  const std::string text =
      "const x =  ( a + b )  * - f( c , n : [ 1 , 2k ] ) # comment\n  - d [ 3 , ( 4 ) ] <= any( r in ( 0 .. 4 ) : r == "
      "2 ) ;";
  check_ranges(*parsed(text).constants.at(0).value, text);
}

TEST(Ranges, OfStatements) {
  const std::string text = "pattern p {\n  heads 8  kv 2 ; # comment\n  combine joint  detached ;\n}";
  const auto file = parsed(text);
  const auto covered = [&](SourceRange range) { return text.substr(range.begin, range.end - range.begin); };
  const auto& statements = file.patterns.at(0).statements;
  EXPECT_EQ(covered(statements.at(0).range), "heads 8  kv 2 ;");
  EXPECT_EQ(covered(statements.at(0).word_range), "heads");
  EXPECT_EQ(covered(statements.at(1).detached_range), "detached");
  EXPECT_EQ(covered(file.patterns[0].range), text);
  EXPECT_EQ(file.comments.at(0).text, " comment");
}

TEST(Recovery, GoesOnBehindStatements) {
  EXPECT_EQ(marked(in_pattern("heads; keep all; dim +; score s s; dropout 0.1;")),
            (Words{"E0101 ';'", "E0101 '+'", "E0101 's'"}));
}

TEST(Recovery, AMissingSemicolonCostsOneStatement) {
  EXPECT_EQ(marked("pattern p {\n  heads 8\n  dim;\n}"), (Words{"E0101 ''", "E0101 ';'"}));
}

TEST(Recovery, UnknownBlocksAreSkippedWhole) {
  EXPECT_EQ(marked(in_pattern("shedule { tile_q: 3; stages: 2; } keep;")), (Words{"E0111 'shedule'", "E0101 ';'"}));
}

TEST(Recovery, AMissingBraceEndsAtTheNextPattern) {
  EXPECT_EQ(marked("pattern p { keep all;\npattern q { keep; }"), (Words{"E0112 '{'", "E0101 ';'"}));
  EXPECT_EQ(marked("patern p { keep all; }\npattern q { keep; }"), (Words{"E0111 'patern'", "E0101 ';'"}));
  EXPECT_EQ(marked("pattern p(x int) { keep; }"), (Words{"E0101 'int'", "E0101 ';'"}));
}

TEST(Recovery, SaysWhatWasExpected) {
  const auto message = [](const std::string& text) { return findings({"test.weft", text}).at(0).message; };
  EXPECT_EQ(message("pattern p { heads 8 dim 64; }"), "expected ';' but found 'dim'");
  EXPECT_EQ(message("pattern p { heads 8\n dim 64; }"), "expected ';' after '8'");
  EXPECT_EQ(message("pattern p { keep ; }"), "expected an expression but found ';'");
  EXPECT_EQ(message("pattern p { keep a +; }"), "expected an expression but found ';'");
  EXPECT_EQ(message("pattern { }"), "expected a name but found '{'");
  EXPECT_EQ(message("pattern p(x: 3) { }"), "expected a type but found '3'");
  EXPECT_EQ(message("pattern p { schedule { tile_q 3; } }"), "expected ':' but found '3'");
  EXPECT_EQ(message("pattern p { branch all on 0..3; }"), "expected 'heads' but found '0'");
  EXPECT_EQ(message("const x = [1, 2;"), "this '[' is never closed: ';' comes first");
  EXPECT_EQ(message("const x = 1"), "expected ';' after '1'");
  EXPECT_EQ(message("pattern and { }"), "expected a name but found 'and'");
}

}  // namespace
}  // namespace weft::test
