#include "assembly.h"

#include "laboratory/sass/flow.h"

namespace weft::sass {
namespace {

/// First instructions of a loop's blocks.
std::vector<int> blocks_in(const Flow& flow, const Loop& loop) {
  std::vector<int> out;
  for (std::size_t i = 0; i < flow.blocks.size(); ++i) {
    if (loop.blocks[i]) out.push_back(flow.blocks[i].first);
  }
  return out;
}

int header(const Flow& flow, std::size_t loop) {
  return flow.blocks[static_cast<std::size_t>(flow.loops[loop].header)].first;
}

TEST(Flow, BlocksEndAtJumpsAndBeginWhereTheyLead) {
  const Code code =
      assembled({{"MOV R0, RZ"}, {"@P0 BRA `(.L_1)"}, {"MOV R0, R1"}, {".L_1:"}, {"IADD R0, R0, 0x1"}, {"EXIT"}});
  const Flow flow = flow_of(code);
  ASSERT_EQ(flow.blocks.size(), 4U);  // the last is what fills up the group
  EXPECT_EQ(flow.blocks[0].next, (std::vector<int>{1, 2})) << "what follows comes first";
  EXPECT_EQ(flow.blocks[1].next, std::vector<int>{2});
  EXPECT_TRUE(flow.blocks[2].next.empty());
  EXPECT_EQ(flow.blocks[2].dominator, 0);
  EXPECT_EQ(flow.block_at(1), 0);
  EXPECT_EQ(flow.block_at(3), 2);
  EXPECT_TRUE(flow.loops.empty());
}

TEST(Flow, InnerLoopsComeBeforeThoseAround) {
  const Flow flow = flow_of(assembled({{"MOV R0, RZ"},
                                       {".L_outer:"},
                                       {"IADD R0, R0, 0x1"},
                                       {".L_inner:"},
                                       {"FADD R2, R2, R3"},
                                       {"@P0 BRA `(.L_inner)"},
                                       {"@P1 BRA `(.L_outer)"},
                                       {"EXIT"}}));
  ASSERT_EQ(flow.loops.size(), 2U);
  EXPECT_EQ(header(flow, 0), 2);
  EXPECT_EQ(header(flow, 1), 1);
  EXPECT_EQ(flow.loops[0].parent, 1);
  EXPECT_EQ(flow.loops[1].parent, kNone);
  EXPECT_EQ(blocks_in(flow, flow.loops[0]), std::vector<int>{2});
  EXPECT_EQ(blocks_in(flow, flow.loops[1]), (std::vector<int>{1, 2, 4}));
  EXPECT_TRUE(flow.encloses(1, 0));
  EXPECT_FALSE(flow.encloses(0, 1));
  EXPECT_EQ(flow.blocks[static_cast<std::size_t>(flow.block_at(2))].loop, 0);
  EXPECT_EQ(flow.blocks[static_cast<std::size_t>(flow.block_at(4))].loop, 1);
}

TEST(Flow, AWarpMeetsAgainWhereSsySays) {
  const Flow flow = flow_of(assembled({{".L_loop:"},
                                       {"SSY `(.L_meet)"},
                                       {"@P0 SYNC (*\"BRANCH_TARGETS .L_meet\"*)"},
                                       {"FADD R2, R2, R3"},
                                       {"SYNC (*\"BRANCH_TARGETS .L_meet\"*)"},
                                       {".L_meet:"},
                                       {"@P1 BRA `(.L_loop)"},
                                       {"EXIT"}}));
  ASSERT_EQ(flow.loops.size(), 1U);
  EXPECT_EQ(blocks_in(flow, flow.loops[0]), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(flow.blocks[0].next, (std::vector<int>{1, 2}));
  EXPECT_EQ(flow.blocks[1].next, std::vector<int>{2});
}

TEST(Flow, TwoWaysBackAreOneLoop) {
  const Flow flow = flow_of(assembled({{".L_loop:"},
                                       {"IADD R0, R0, 0x1"},
                                       {"@P0 BRA `(.L_loop)"},
                                       {"FADD R2, R2, R3"},
                                       {"@P1 BRA `(.L_loop)"},
                                       {"EXIT"}}));
  ASSERT_EQ(flow.loops.size(), 1U);
  EXPECT_EQ(blocks_in(flow, flow.loops[0]), (std::vector<int>{0, 2}));
}

TEST(Flow, ABranchMayDependOnAnOperand) {
  for (const char* condition : {"P3, ", "!PT, ", "!UP0, "}) {
    const Flow flow =
        flow_of(assembled({{std::string("BRA.U ") + condition + "`(.L_1)"}, {"NOP"}, {".L_1:"}, {"EXIT"}}));
    EXPECT_EQ(flow.blocks[0].next, (std::vector<int>{1, 2})) << condition;
  }
  const Flow always = flow_of(assembled({{"BRA.U UPT, `(.L_1)"}, {"NOP"}, {".L_1:"}, {"EXIT"}}));
  EXPECT_EQ(always.blocks[0].next, std::vector<int>{2});
}

TEST(Flow, WarpsAreNotParted) {
  const Flow flow = flow_of(assembled({{"BRA.DIV ~URZ, `(.L_parted)"}, {"NOP"}, {"EXIT"}, {".L_parted:"}, {"EXIT"}}));
  EXPECT_EQ(flow.blocks[0].next, std::vector<int>{});
  EXPECT_EQ(flow.blocks[0].last, 2);
}

TEST(Flow, CallsReturnAndGuardedExitsGoOn) {
  const Flow flow =
      flow_of(assembled({{"CAL `(.L_function)"}, {"@P0 EXIT"}, {"NOP"}, {"EXIT"}, {".L_function:"}, {"RET"}}));
  EXPECT_EQ(flow.blocks[0].last, 1) << "the call goes on";
  EXPECT_EQ(flow.blocks[0].next, std::vector<int>{1});
  EXPECT_TRUE(flow.blocks[static_cast<std::size_t>(flow.block_at(4))].next.empty());
}

TEST(Flow, ACallThatDoesNotComeBackIsAJump) {
  const Flow flow =
      flow_of(assembled({{".L_loop:"}, {"IADD R0, R0, 0x1"}, {"@P0 CALL.REL.NOINC `(.L_loop)"}, {"EXIT"}}));
  ASSERT_EQ(flow.loops.size(), 1U);
  EXPECT_EQ(blocks_in(flow, flow.loops[0]), std::vector<int>{0});
}

TEST(Flow, WhatNothingLeadsToIsInNoLoop) {
  const Flow flow = flow_of(assembled({{"EXIT"}, {".L_dead:"}, {"BRA `(.L_dead)"}}));
  EXPECT_TRUE(flow.loops.empty());
}

TEST(Flow, OfNothingIsEmpty) { EXPECT_TRUE(flow_of(Code{}).blocks.empty()); }

}  // namespace
}  // namespace weft::sass
