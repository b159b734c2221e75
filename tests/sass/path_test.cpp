#include "assembly.h"

#include "laboratory/sass/path.h"

namespace weft::sass {
namespace {

struct Followed {
  Code code;
  Flow flow;
  int loop = kNone;
  Path path;
  Mix mix;

  int count(std::string_view opcode) const {
    return static_cast<int>(std::count_if(path.trace.begin(), path.trace.end(), [&](int i) {
      return code.instructions[static_cast<std::size_t>(i)].opcode == opcode;
    }));
  }
};

Followed follow(const std::vector<Line>& lines, const KnownRounds& known = {}) {
  Followed out;
  out.code = assembled(lines);
  out.flow = flow_of(out.code);
  out.loop = main_loop(out.code, out.flow, known);
  if (out.loop == kNone) return out;
  const auto path = hot_path(out.code, out.flow, out.loop, known);
  EXPECT_TRUE(path.ok()) << (path.ok() ? "" : path.error().message);
  if (path.ok()) out.path = *path;
  out.mix = mix_of(out.code, out.path.trace);
  return out;
}

using Lines = std::vector<Line>;
Lines operator+(Lines a, const Lines& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Lines times(int count, const Lines& lines) {
  Lines out;
  for (int i = 0; i < count; ++i) out = out + lines;
  return out;
}
const Line kProduct{"FFMA R0, R1, R2, R0"}, kExponential{"MUFU.EX2 R3, R4"};

/// A loop over blocks of keys, as often as nobody knows.
Lines key_loop(const Lines& body) {
  return Lines{{"MOV R20, RZ"}, {".L_keys:"}} + body +
         Lines{{"ISETP.LT.AND P6, PT, R20, c[0x0][0x10], PT"}, {"@P6 BRA `(.L_keys)"}, {"EXIT"}};
}

/// `before; do { body } while (more)`
Lines counted(const std::string& name, const Lines& before, const Lines& body, const Lines& more) {
  return before + Lines{{".L_" + name + ":"}} + body + more + Lines{{"@P0 BRA `(.L_" + name + ")"}};
}
const Lines kToFour = {{"IADD R5, R5, 0x1"}, {"ISETP.LT.AND P0, PT, R5, 0x4, PT"}};

TEST(Path, FollowsCounters) {
  const auto four =
      follow(key_loop(counted("chunks", {{"MOV R5, RZ"}}, times(10, {kProduct}), kToFour) + Lines{kExponential}));
  EXPECT_EQ(four.mix.products, 40);
  EXPECT_EQ(four.path.rounds[0], 4);
  EXPECT_TRUE(four.path.guessed.empty());
  EXPECT_EQ(four.path.trace.size(), 1U + 4 * 13 + 3);
}

TEST(Path, CountersAreSpelledInManyWays) {
  const Lines body = times(10, {kProduct});
  const std::vector<std::pair<Lines, Lines>> ways = {
      {{{"MOV32I R5, 0x40"}}, {{"IADD32I R5, R5, -0x10"}, {"ISETP.NE.AND P0, PT, R5, RZ, PT"}}},
      {{{"MOV R5, 0x3"}}, {{"ISETP.GT.U32.AND P0, PT, R5, RZ, PT"}, {"IADD R5, R5, -0x1"}}},
      {{{"MOV R6, RZ"}, {"IADD R5, R6, 0x8"}}, {{"SHL R5, R5, 0x1"}, {"ISETP.LE.AND P0, PT, R5, 0x40, PT"}}},
      {{{"MOV R5, RZ"}},
       {{"IADD3 R5, R5, 0x1, RZ"},
        {"LOP.AND R7, R5, 0x3"},
        {"ISETP.EQ.AND P0, PT, R7, RZ, PT"},
        {"SEL R8, RZ, 0x1, P0"},
        {"ISETP.NE.AND P0, PT, R8, RZ, PT"}}},
  };
  for (const auto& [before, more] : ways) {
    const auto found = follow(key_loop(counted("chunks", before, body, more) + Lines{kExponential}));
    EXPECT_EQ(found.path.rounds[0], 4) << more.back().text;
    EXPECT_TRUE(found.path.guessed.empty());
  }
}

TEST(Path, LoopsThatAreTestedFirstAreFollowed) {
  const auto found = follow(
      key_loop(Lines{{"MOV R5, RZ"}, {".L_chunks:"}, {"ISETP.GE.AND P0, PT, R5, 0x3, PT"}, {"@P0 BRA `(.L_done)"}} +
               times(10, {kProduct}) + Lines{{"IADD R5, R5, 0x1"}, {"BRA `(.L_chunks)"}, {".L_done:"}, kExponential}));
  EXPECT_EQ(found.mix.products, 30);
}

TEST(Path, RoundsThatNobodyKnowsAreGuessedAndSaid) {
  const Lines lines =
      key_loop(counted("chunks", {{"MOV R5, RZ"}}, times(10, {kProduct}), {{"ISETP.LT.AND P0, PT, R5, R6, PT"}}) +
               Lines{kExponential});
  const auto guessed = follow(lines);
  EXPECT_EQ(guessed.path.guessed, std::vector<int>{0});
  const auto told = follow(lines, {{guessed.code.instructions[2].address, 5}});
  EXPECT_TRUE(told.path.guessed.empty());
  EXPECT_EQ(told.mix.products, 50);
}

TEST(Path, TheWayWithTheProductsIsTaken) {
  // An empty block skips them, a partial one evaluates a mask first.
  const auto found =
      follow(key_loop(Lines{{"@P1 BRA `(.L_end)"}, {"@!P2 BRA `(.L_full)"}} + times(20, {{"POPC R9, R9"}}) +
                      Lines{{".L_full:"}} + times(10, {kProduct}) + Lines{kExponential, {".L_end:"}}));
  EXPECT_EQ(found.mix.products, 10);
  EXPECT_EQ(found.count("POPC"), 0);
  EXPECT_EQ(found.path.preferred, 3) << "both, and the loop's own end";
}

TEST(Path, OfTwoWaysWithTheSameProductsTheShorterIsTaken) {
  const auto found = follow(key_loop(Lines{{"@P1 BRA `(.L_plain)"}} + times(10, {kProduct, {"SEL R9, R8, RZ, P2"}}) +
                                     Lines{{"BRA `(.L_end)"}, {".L_plain:"}} + times(10, {kProduct}) +
                                     Lines{{".L_end:"}, kExponential}));
  EXPECT_EQ(found.mix.products, 10);
  EXPECT_EQ(found.count("SEL"), 0);
}

TEST(Path, ASoftmaxIsNotSkippedButARescaleIs) {
  const auto found = follow(key_loop(Lines{kProduct, {"@P1 BRA `(.L_weighed)"}} + times(64, {kExponential}) +
                                     Lines{{".L_weighed:"}, {"@!P2 BRA `(.L_same)"}} +
                                     times(8, {{"MUFU.EX2 R10, R11"}}) + Lines{{".L_same:"}, kProduct}));
  EXPECT_EQ(found.count("MUFU.EX2"), 64);
  EXPECT_EQ(found.mix.products, 2);
}

TEST(Path, WhatIsAskedTwiceHasOneAnswer) {
  // The same predicate skips one thing and then leads to another: no way runs both of the short sides.
  const auto found = follow(key_loop(Lines{kProduct,
                                           {"@P1 BRA `(.L_a)"},
                                           {"POPC R9, R9"},
                                           {".L_a:"},
                                           {"@!P1 BRA `(.L_b)"},
                                           {"FLO R9, R9"},
                                           {"FLO R9, R9"},
                                           {".L_b:"},
                                           kExponential}));
  EXPECT_EQ(found.count("POPC") + found.count("FLO"), 2);
}

TEST(Path, TheKeyLoopIsTheInnermostWithBothProductsAndTheSoftmax) {
  const Lines products = counted("scores", {{"MOV R5, RZ"}}, times(10, {kProduct}), kToFour) + Lines{kExponential} +
                         counted("values", {{"MOV R5, RZ"}}, times(10, {kProduct}), kToFour);
  Lines body = key_loop(products);
  body.pop_back();
  // Lists of keys are filled in a loop around it, and scores may have a loop of their own in it.
  const auto found = follow(Lines{{".L_lists:"}} + body + Lines{{"@P5 BRA `(.L_lists)"}, {"EXIT"}});
  ASSERT_NE(found.loop, kNone);
  EXPECT_EQ(found.mix.products, 80);
  const auto scored =
      follow(key_loop(products + counted("score", {{"MOV R5, RZ"}}, {kExponential, kProduct}, kToFour)));
  EXPECT_EQ(scored.mix.products, 84);
}

TEST(Path, OfAPlainProductItIsTheInnermostLoop) {
  const auto found = follow(key_loop(counted("inner", {{"MOV R5, RZ"}}, times(10, {kProduct}), kToFour)));
  EXPECT_EQ(found.mix.products, 10);
}

TEST(Path, WithoutProductsThereIsNone) {
  EXPECT_EQ(follow(key_loop({kExponential})).loop, kNone);
  EXPECT_EQ(follow({{"EXIT"}}).loop, kNone);
}

TEST(Path, MixesCountConflictsAlongTheWay) {
  const auto found = follow(
      key_loop({{"FFMA R0, R1, R5, R0"}, {"FFMA R4, R1.reuse, R2, R4"}, {"FFMA R8, R1, R5, R8"}, {"LDS R1, [R2]"}}));
  EXPECT_EQ(found.mix.products, 3);
  EXPECT_EQ(found.mix.of(Unit::shared), 1);
  // R1 and R5; R4 is what the second writes and adds to, in no bank with R1 or R2; the third has R1 kept.
  EXPECT_EQ(found.mix.bank_conflicts, 1);
}

}  // namespace
}  // namespace weft::sass
