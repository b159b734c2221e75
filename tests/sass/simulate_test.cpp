#include "assembly.h"

#include "laboratory/sass/simulate.h"

#include <numeric>

namespace weft::sass {
namespace {

/// Every instruction once, round after round.
Simulation run(const std::vector<Line>& lines, const Launch& launch = {.blocks = 1, .warps = 1},
               const Machine& machine = {}) {
  const Code code = assembled(lines);
  const auto count = std::count_if(lines.begin(), lines.end(), [](const Line& l) { return !l.text.ends_with(':'); });
  std::vector<int> trace(static_cast<std::size_t>(count));
  std::iota(trace.begin(), trace.end(), 0);
  return simulate(code, trace, launch, machine);
}

double clocks(const std::vector<Line>& lines, const Launch& launch = {.blocks = 1, .warps = 1},
              const Machine& machine = {}) {
  return run(lines, launch, machine).clocks_per_round;
}

const Line kProduct{"FFMA R0, R1, R2, R0"};
constexpr Launch kOneASchedulers{.blocks = 1, .warps = 4};

TEST(Simulate, AWarpIssuesOneInstructionAClock) {
  EXPECT_EQ(clocks(std::vector<Line>(12, kProduct)), 12);
  const auto full = run(std::vector<Line>(12, kProduct), kOneASchedulers);
  EXPECT_EQ(full.clocks_per_round, 12);
  EXPECT_EQ(full.product_share, 1);
  EXPECT_EQ(run(std::vector<Line>(12, kProduct)).product_share, 0.25) << "three schedulers have no warp";
}

TEST(Simulate, StallsCountUntilTheNextInstruction) {
  EXPECT_EQ(clocks({{"FADD R0, R1, R2", stalls(6)}, {"FADD R3, R0, R2", stalls(1)}, kProduct}), 8);
  const auto two = run({{"FADD R0, R1, R2", stalls(2)}}, {.blocks = 1, .warps = 8});
  EXPECT_EQ(two.clocks_per_round, 2) << "two warps of a scheduler fill each other's gaps";
  EXPECT_EQ(two.issued_per_clock, 1);
}

TEST(Simulate, ALongStallCountsOnlyWhereItYields) {
  EXPECT_EQ(clocks({{"ISETP.LT.AND P0, PT, R0, R1, PT", {.stall = 13, .yields = true}}, kProduct}), 14);
  EXPECT_EQ(clocks({{"LDS R0, [R1]", {.stall = 13}}, kProduct}), 3);
  EXPECT_EQ(clocks({{"LDS R0, [R1]", {.stall = 11}}, kProduct}), 12);
  EXPECT_EQ(clocks({{"LDS R0, [R1]", {.stall = 13}}, kProduct}, {.blocks = 1, .warps = 1}, {.unyielded_stall = 6}), 7);
}

TEST(Simulate, StallZeroPairsArithmeticWithTheRest) {
  const auto pair = [](const char* first, const char* second) { return clocks({{first, stalls(0)}, {second}}); };
  EXPECT_EQ(pair("FFMA R0, R1, R2, R0", "LDS R4, [R8]"), 1);
  EXPECT_EQ(pair("LDS R4, [R8]", "FFMA R0, R1, R2, R0"), 1);
  EXPECT_EQ(pair("IADD R0, R1, R2", "BRA `(.L_1)"), 1);
  EXPECT_EQ(pair("FFMA R0, R1, R2, R0", "FFMA R4, R1, R2, R4"), 2) << "one unit";
  EXPECT_EQ(pair("FFMA R0, R1, R2, R0", "FMNMX R4, R1, R2, PT"), 2) << "one dispatcher for arithmetic";
  EXPECT_EQ(pair("LDS R4, [R8]", "LDS R5, [R8]"), 2);
  const auto both = run({{"FFMA R0, R1, R2, R0", stalls(0)}, {"LDS R4, [R8]"}}, kOneASchedulers);
  EXPECT_GT(both.issued_per_clock, 1 / 4.0 + 0.2) << "the shared pipe limits four warps, not the issue";
}

TEST(Simulate, ThePairsSecondWaitsForItsBarriersAlone) {
  const std::vector<Line> lines = {{"LDS R4, [R8]", {.stall = 1, .write_barrier = 0}},
                                   {"FFMA R0, R1, R2, R0", stalls(0)},
                                   {"STS [R8], R4", {.stall = 1, .waits = 1}}};
  EXPECT_EQ(clocks(lines, {.blocks = 1, .warps = 1}, {.shared_latency = 24}), 25);
}

TEST(Simulate, ResultsAreAwaited) {
  const auto load_and_use = [](const char* load, const Machine& machine) {
    return clocks({{load, {.stall = 1, .write_barrier = 2}}, {"FADD R0, R4, R1", {.stall = 1, .waits = 4}}},
                  {.blocks = 1, .warps = 1}, machine);
  };
  EXPECT_EQ(load_and_use("LDS R4, [R8]", {.shared_latency = 24}), 25);
  EXPECT_EQ(load_and_use("LDS R4, [R8]", {.shared_latency = 34}), 35);
  EXPECT_EQ(load_and_use("LDG.E R4, [R8]", {.global_clocks = 1, .global_latency = 350}), 351);
  EXPECT_EQ(load_and_use("MUFU.EX2 R4, R8", {.special_clocks = 4, .special_latency = 20}), 24);
  EXPECT_EQ(clocks({{"LDS R4, [R8]", {.stall = 1, .write_barrier = 2}}, {"FADD R0, R4, R1", {.stall = 1, .waits = 2}}}),
            2)
      << "another barrier";
}

TEST(Simulate, OperandsAreHeldUntilRead) {
  EXPECT_EQ(clocks({{"STS [R8], R4", {.stall = 1, .read_barrier = 5}}, {"FADD R4, R0, R1", {.stall = 1, .waits = 32}}},
                   {.blocks = 1, .warps = 1}, {.operands_read = 8}),
            9);
}

TEST(Simulate, ABarrierCountsWhatIsUnderWay) {
  const auto drain = [](const char* wait) {
    return clocks({{"LDS R4, [R8]", {.stall = 10, .write_barrier = 5}},
                   {"LDS R5, [R8]", {.stall = 1, .write_barrier = 5}},
                   {wait, stalls(1)}},
                  {.blocks = 1, .warps = 1}, {.shared_latency = 24});
  };
  EXPECT_EQ(drain("DEPBAR.LE SB5, 0x6"), 12);
  EXPECT_EQ(drain("DEPBAR.LE SB5, 0x1"), 25) << "the first load";
  EXPECT_EQ(drain("DEPBAR.LE SB5, 0x0"), 35) << "both";
}

TEST(Simulate, BankConflictsTakeTheSchedulersTime) {
  std::vector<Line> lines(6, {"FFMA R4, R1, R5, R4"});
  lines.back().control.yields = true;
  const auto charged = run(lines, {.blocks = 2, .warps = 4});
  EXPECT_EQ(charged.product_share, 0.5) << "the other warp cannot use the clock";
  EXPECT_EQ(charged.of(Slot::conflict), 0.5);
  EXPECT_EQ(run(lines, {.blocks = 2, .warps = 4}, {.bank_conflicts = false}).product_share, 1);
  EXPECT_EQ(clocks({{"FFMA R0, R1.reuse, R2, R0", {.stall = 1, .reuse = 1}}, {"FFMA R4, R1, R5, R6"}}), 2);
  EXPECT_EQ(clocks({{"FFMA R0, R1, R2, R0"}, {"FFMA R4, R1, R5, R6"}}), 3);
}

TEST(Simulate, WhatIsKeptIsLostToAnotherWarp) {
  const auto lost = [](bool yields) {
    return clocks({{"FFMA R0, R1.reuse, R2, R0", {.stall = 1, .yields = yields, .reuse = 1}},
                   {"FFMA R4, R1, R5, R6"},
                   {"IADD R3, R8, 0x1", {.stall = 1, .yields = true}}},
                  {.blocks = 1, .warps = 8});
  };
  EXPECT_EQ(lost(false), 6) << "two warps, three instructions each";
  EXPECT_EQ(lost(true), 8);
}

TEST(Simulate, SlowUnitsTakeTheirTime) {
  EXPECT_EQ(clocks(std::vector<Line>(30, {"FMNMX R0, R1, R2, PT"})), 60);
  EXPECT_EQ(clocks(std::vector<Line>(30, {"MUFU.EX2 R0, R1"})), 120);
  std::vector<Line> mixed;
  for (int i = 0; i < 30; ++i) mixed.insert(mixed.end(), {{"FMNMX R3, R1, R2, PT"}, kProduct});
  EXPECT_EQ(clocks(mixed), 60) << "products fill the gaps";
}

TEST(Simulate, SchedulersShareThePipeOfSharedMemory) {
  const auto per_load = [](const char* load, int warps, const Machine& machine = {}) {
    return clocks(std::vector<Line>(60, {load}), {.blocks = 1, .warps = warps}, machine) / 60;
  };
  EXPECT_EQ(per_load("LDS R0, [R1]", 1), 1);
  EXPECT_NEAR(per_load("LDS R0, [R1]", 4), 4, 0.05);
  EXPECT_NEAR(per_load("LDS.U.128 R0, [R1]", 1), 2, 0.05) << "lanes in pairs";
  EXPECT_NEAR(per_load("LDS.U.64 R0, [R2]", 1), 1, 0.05);
  EXPECT_NEAR(per_load("LDS.U.128 R0, [R1]", 1, {.lane_pairs = false}), 4, 0.05);
  EXPECT_NEAR(per_load("STS.128 [R1], R0", 1), 4, 0.05) << "stores have no pairs";
  EXPECT_NEAR(per_load("STS.128 [R1], R0", 1, {.store_conflicts = 2}), 8, 0.05);
  EXPECT_NEAR(per_load("SHFL.BFLY PT, R0, R1, 0x1, 0x1f", 4), 4, 0.05);
}

TEST(Simulate, AYieldLetsTheOtherWarpGoFirst) {
  // What needs 13 clocks of a warp leaves 12 to the other; a warp that never gives way takes them later.
  std::vector<Line> lines(12, kProduct);
  lines.push_back({"ISETP.LT.AND P0, PT, R0, R1, PT", {.stall = 13, .yields = true}});
  EXPECT_EQ(clocks(lines, {.blocks = 1, .warps = 4}), 25);
  EXPECT_EQ(clocks(lines, {.blocks = 1, .warps = 8}), 26);
}

TEST(Simulate, ABlocksWarpsWaitForEachOther) {
  const std::vector<Line> lines = {{"BAR.SYNC 0x0", stalls(5)}, kProduct};
  EXPECT_EQ(clocks(lines, {.blocks = 1, .warps = 4}, {.barrier_latency = 20}), 21);
  EXPECT_EQ(clocks(lines, {.blocks = 1, .warps = 4}, {.barrier_latency = 60}), 61);
  EXPECT_EQ(clocks(lines, {.blocks = 2, .warps = 4}, {.barrier_latency = 20}), 21) << "blocks do not wait for others";
  EXPECT_EQ(clocks({{"MEMBAR.CTA", stalls(1)}, kProduct}, {.blocks = 1, .warps = 1}, {.fence_latency = 30}), 31);
  // One of two warps on a scheduler arrives two instructions after the other, and lets both go.
  EXPECT_EQ(clocks(lines, {.blocks = 1, .warps = 8}, {.barrier_latency = 20}), 23);
}

TEST(Simulate, ASecondBlockHidesWhatTheFirstWaitsFor) {
  std::vector<Line> lines(200, kProduct);
  lines.push_back({"LDG.E R4, [R8]", {.stall = 1, .write_barrier = 0}});
  lines.push_back({"FADD R0, R4, R1", {.stall = 1, .waits = 1}});
  const auto one = run(lines, {.blocks = 1, .warps = 4}), two = run(lines, {.blocks = 2, .warps = 4});
  EXPECT_LT(one.product_share, 0.4);
  EXPECT_GT(one.of(Slot::global), 0.6);
  EXPECT_NEAR(two.product_share, 2 * one.product_share, 0.01);
}

TEST(Simulate, SharesOfSlotsSumUp) {
  const auto mixed = run({kProduct,
                          {"LDS.U.128 R4, [R8]", {.stall = 2, .write_barrier = 1}},
                          {"FMNMX R1, R4, R8, PT", {.stall = 6, .waits = 2}},
                          {"BAR.SYNC 0x0", stalls(5)}},
                         {.blocks = 2, .warps = 4});
  EXPECT_NEAR(std::accumulate(mixed.slots.begin(), mixed.slots.end(), 0.0), 1, 1e-12);
}

TEST(Simulate, EndsWhereABarrierIsNeverFree) {
  EXPECT_EQ(run({{"LDS R0, [R1]", {.stall = 1, .write_barrier = 0}}, {"DEPBAR.LE SB0, -0x1"}, kProduct}).product_share,
            0);
}

}  // namespace
}  // namespace weft::sass
