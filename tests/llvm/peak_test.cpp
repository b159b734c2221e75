#include "runtime/llvm/peak.h"

#include "tests/llvm/kernels.h"

#include <cmath>

namespace weft::llvm {
namespace {

TEST(Peak, EveryTargetsLoopIsNothingButArithmetic) {
  const auto llvm = library();
  ASSERT_NE(llvm, nullptr);
  for (const Target& target : cpu_targets()) {
    const auto text = assembly(*llvm, PeakMeter::ir_text(target), target);
    ASSERT_TRUE(text.ok()) << text.error().message;
    // Between the loop's label and the jump back to it: no memory operand, so no spill either.
    const std::size_t begin = text->find("LBB0_1:");
    const std::size_t end = text->find("LBB0_1\n");
    ASSERT_TRUE(begin != std::string::npos && end != std::string::npos && begin < end) << *text;
    const std::string loop = text->substr(begin, end - begin);
    EXPECT_EQ(loop.find('('), std::string::npos) << target.name << "\n" << loop;
    EXPECT_NE(loop.find(target.has_fma ? "vfmadd" : "mulps"), std::string::npos);
  }
}

TEST(Peak, IsPlausibleAndGrowsWithTheVectorWidth) {
  const auto llvm = library();
  ASSERT_NE(llvm, nullptr);
  const auto narrow = PeakMeter::create(*llvm, *find_target("cpu:x86-64"));
  ASSERT_TRUE(narrow.ok()) << narrow.error().message;
  const double base = narrow->flops_per_second(1);
  EXPECT_GT(base, 1e9);   // a 250 MHz machine
  EXPECT_LT(base, 1e11);  // 12 GHz × 2 units × 4 lanes
  const Target best = host_target();
  if (!best.has_fma) GTEST_SKIP() << "this machine has no FMA";
  const auto wide = PeakMeter::create(*llvm, best);
  ASSERT_TRUE(wide.ok());
  // A neighbour on the core may take its share of either measurement: some turn has them alike.
  double ratio = 0;
  for (int turn = 0; turn < 20 && ratio < 1.5; ++turn) {
    const double beside = narrow->flops_per_second(1);
    ratio = wide->flops_per_second(1) / beside;
  }
  EXPECT_GT(ratio, 1.5) << "FMA and twice the lanes give a factor of four on paper";
}

TEST(Peak, IsRefusedWhereTheMachineCannotExecuteTheTarget) {
  const auto llvm = library();
  ASSERT_NE(llvm, nullptr);
  EXPECT_FALSE(PeakMeter::create(*llvm, *find_target("sm_61")).ok());
  EXPECT_FALSE(PeakMeter::create(*llvm, *find_target("interpreter")).ok());
}

}  // namespace
}  // namespace weft::llvm
