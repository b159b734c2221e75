/// A loop of a kernel that NVRTC 12.9 made for sm_61: eight keys of P V, 8 x 8 sums a thread, buffers in turns.

#include "laboratory/sass/listing.h"
#include "laboratory/sass/operands.h"
#include "laboratory/sass/report.h"
#include "tests/support/places.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

namespace weft::sass {
namespace {

class Kernel : public testing::Test {
 protected:
  Kernel() {
    std::ifstream in(test::in_checkout("tests/sass/values_loop.sass"), std::ios::binary);
    const auto parsed = parse_listing(std::string{std::istreambuf_iterator<char>(in), {}});
    EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
    if (parsed.ok()) codes_ = *parsed;
  }
  double share(const Machine& machine = {}, const Launch& launch = {}) {
    const auto report = report_on(codes_, {.launch = launch, .products = 512, .machine = machine});
    EXPECT_TRUE(report.ok());
    return report.ok() ? report->share_of_peak.value_or(0) : 0;
  }
  std::vector<Code> codes_;
};

TEST_F(Kernel, IsReadAsAWhole) {
  const auto report = report_on(codes_, {.launch = {}, .products = 512});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(codes_.front().registers, 206);
  ASSERT_EQ(report->loops.size(), 1U);
  EXPECT_EQ(report->loops[0].begin, 0xa388);
  EXPECT_EQ(report->loops[0].end, 0xbc38);
  const Mix& mix = report->loops[0].mix;
  EXPECT_EQ(mix.products, 512);
  EXPECT_EQ(mix.instructions, 571);
  EXPECT_EQ(mix.of(Unit::shared), 34);
  EXPECT_EQ(mix.of(Unit::global), 1);
  EXPECT_EQ(mix.bank_conflicts, 66);
  EXPECT_TRUE(report->trusted);
}

/// The assembler's own marks are the evidence for how many registers a slot keeps: each has a use.
TEST_F(Kernel, EveryMarkForReuseHasAUse) {
  ASSERT_FALSE(codes_.empty());
  int marks = 0, uses = 0;
  const auto& code = codes_.front().instructions;
  const auto source = [&](std::size_t i, std::size_t slot) {
    const std::size_t index = first_source(code[i]) + slot;
    return index < code[i].operands.size() ? code[i].operands[index] : Operand{};
  };
  for (std::size_t i = 0; i < code.size(); ++i) {
    for (std::size_t slot = 0; slot < 3; ++slot) {
      const Operand marked = source(i, slot);
      if (!marked.reused) continue;
      ++marks;
      std::set<int> others;
      for (std::size_t j = i + 1; j < code.size() && others.size() < 2; ++j) {
        if (source(j, slot).is_register(marked.number)) {
          ++uses;
          break;
        }
        if (source(j, slot).reused) others.insert(source(j, slot).number);
      }
    }
  }
  EXPECT_GT(marks, 300);
  EXPECT_EQ(uses, marks);
}

TEST_F(Kernel, ItsShareIsAsItWas) { EXPECT_NEAR(share(), 0.839, 0.002); }

TEST_F(Kernel, EachRuleMovesItAsItShould) {
  const double usual = share();
  EXPECT_NEAR(share({.bank_conflicts = false}), usual + 0.09, 0.02);
  EXPECT_LT(share({.lane_pairs = false}), usual);
  EXPECT_LT(share({}, {.blocks = 1, .warps = 4}), usual - 0.05) << "one block has nobody to hide its waits";
  EXPECT_LE(share({.barrier_latency = 60}), usual);
  EXPECT_LE(share({.unyielded_stall = 6}), usual + 0.001);
  EXPECT_GT(share({.lane_pairs = false, .barrier_latency = 60, .unyielded_stall = 6}), 0.6);
}

}  // namespace
}  // namespace weft::sass
