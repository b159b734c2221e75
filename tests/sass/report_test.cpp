#include "assembly.h"

#include "laboratory/sass/report.h"

namespace weft::sass {
namespace {

using Lines = std::vector<Line>;

Lines operator+(Lines a, const Lines& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Lines products(int count) {
  Lines out;
  for (int i = 0; i < count; ++i) {
    const int sum = 8 + i % 64;
    out.push_back({fmt::format("FFMA R{0}, R1, R2, R{0}", sum)});
  }
  return out;
}

/// `rounds` is an immediate, or what nobody knows.
Lines chunks(const std::string& name, int count, const std::string& rounds) {
  return Lines{{"MOV R5, RZ"}, {".L_" + name + ":"}} + products(count) +
         Lines{{"IADD R5, R5, 0x1", stalls(6)},
               {"ISETP.LT.AND P0, PT, R5, " + rounds + ", PT", {.stall = 13, .yields = true}},
               {"@P0 BRA `(.L_" + name + ")", stalls(5)}};
}

Lines kernel(const Lines& scores, const Lines& values) {
  return Lines{{"MOV R80, RZ"}, {".L_keys:"}, {"MOV R81, RZ"}} + scores + Lines{{"MUFU.EX2 R3, R4"}} + values +
         Lines{{"ISETP.LT.AND P6, PT, R80, c[0x0][0x10], PT"}, {"@P6 BRA `(.L_keys)", stalls(5)}, {"EXIT"}};
}

Report report(const Lines& lines, const Question& question) {
  const auto out = report_on({assembled(lines)}, question);
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().message);
  return out.ok() ? *out : Report{};
}

TEST(Report, HasTheKeyLoopAndThenWhatIsInIt) {
  const auto found = report(kernel(chunks("scores", 64, "0x4"), chunks("values", 32, "0x2")), {});
  ASSERT_EQ(found.loops.size(), 3U);
  EXPECT_EQ(found.loops[0].depth, 0);
  EXPECT_EQ(found.loops[0].mix.products, 320);
  EXPECT_EQ(found.loops[1].rounds, 4);
  EXPECT_EQ(found.loops[1].depth, 1);
  EXPECT_EQ(found.loops[1].mix.products, 64);
  EXPECT_EQ(found.loops[2].rounds, 2);
  EXPECT_LT(found.loops[1].end, found.loops[2].begin);
  EXPECT_EQ(found.products, 320);
  EXPECT_TRUE(found.trusted);
  ASSERT_TRUE(found.share_of_peak.has_value());
  EXPECT_NEAR(*found.share_of_peak, found.loops[0].simulation->product_share, 1e-9);
}

TEST(Report, OneLoopOfUnknownRoundsIsFittedToTheProducts) {
  const Lines lines = kernel(chunks("scores", 64, "0x4"), chunks("values", 32, "R7"));
  const auto guessed = report(lines, {});
  EXPECT_TRUE(guessed.loops[2].guessed);
  const auto fitted = report(lines, {.launch = {}, .products = 64 * 4 + 32 * 5});
  EXPECT_FALSE(fitted.loops[2].guessed);
  EXPECT_EQ(fitted.loops[2].rounds, 5);
  EXPECT_EQ(fitted.loops[0].mix.products, 416);
  EXPECT_TRUE(fitted.trusted);
}

TEST(Report, PaddingIsWorkThatDoesNotCount) {
  const Lines lines = kernel(chunks("scores", 64, "0x4"), chunks("values", 32, "0x2"));
  const auto all = report(lines, {.launch = {}, .products = 320}),
             some = report(lines, {.launch = {}, .products = 240});
  EXPECT_TRUE(some.trusted);
  EXPECT_NEAR(*some.share_of_peak / *all.share_of_peak, 240. / 320, 1e-9);
}

TEST(Report, AnotherLoopThanThePlansIsNotTrusted) {
  const Lines lines = kernel(chunks("scores", 64, "0x4"), chunks("values", 32, "0x2"));
  for (const double products : {160., 640.}) {
    const auto found = report(lines, {.launch = {}, .products = products});
    EXPECT_FALSE(found.trusted);
    EXPECT_EQ(found.products, 320);
    EXPECT_NEAR(*found.share_of_peak, found.loops[0].simulation->product_share, 1e-9);
    EXPECT_NE(found.assumed.front().find("320 products"), std::string::npos) << found.assumed.front();
  }
}

TEST(Report, TheKernelWithTheMostProductsIsTheOne) {
  auto small = assembled(kernel(chunks("scores", 8, "0x2"), {})),
       large = assembled(kernel(chunks("scores", 64, "0x4"), {}));
  small.name = "prepass";
  const auto found = report_on({small, large}, {});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->kernel, "kernel");
  const auto none = report_on({assembled({{"EXIT"}})}, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::user);
}

TEST(Report, OtherArchitecturesHaveAMixAndNoClocks) {
  Code code = assembled(Lines{{".L_keys:"},
                              {"MUFU.EX2 R3, R4"},
                              {"HMMA.16816.F32 R4, R8, R12, R4"},
                              {"HMMA.1688.F32 R4, R8, R12, R4"},
                              {"LDSM.16.M88.4 R8, [R20]"},
                              {"FFMA R24, R25, R26, R24"},
                              {"@P0 BRA `(.L_keys)"},
                              {"EXIT"}});
  code.wide = true;
  const auto found = report_on({code}, {});
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->share_of_peak.has_value());
  const Mix& mix = found->loops[0].mix;
  EXPECT_EQ(mix.tensor_products, 64 + 32);
  EXPECT_EQ(mix.products, 64 + 32 + 1);
  EXPECT_EQ(mix.of(Unit::tensor), 2);
  EXPECT_NE(to_text(*found, {}, "").find("tensor cores do 99.0 % of the products"), std::string::npos);
}

TEST(Report, TextSaysWhatWasAssumed) {
  const auto text = to_text(report(kernel(chunks("scores", 64, "R7"), {}), {}), {}, "  ");
  for (const char* part : {"key loop", "8 rounds (guessed)", "issue slots: ", "of the peak", "  assumed: "}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace weft::sass
