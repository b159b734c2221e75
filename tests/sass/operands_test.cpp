#include "assembly.h"

#include "laboratory/sass/operands.h"
#include "laboratory/sass/units.h"

namespace weft::sass {
namespace {

Instruction one(const std::string& text) { return assembled({{text}}).instructions.front(); }

int conflicts(const std::string& text, const std::vector<std::string>& before = {}) {
  Collector collector;
  for (const std::string& line : before) collector.conflicts(one(line));
  return collector.conflicts(one(text));
}

TEST(Operands, AreReadAsPrinted) {
  EXPECT_TRUE(parse_operand("R12").is_register(12));
  EXPECT_TRUE(parse_operand("RZ").is_register(kZeroRegister));
  EXPECT_TRUE(parse_operand("-R3.reuse").negated);
  EXPECT_TRUE(parse_operand("-R3.reuse").reused);
  EXPECT_TRUE(parse_operand("|R3|").is_register(3));
  EXPECT_FALSE(parse_operand("|R3|").is_plain_register());
  EXPECT_FALSE(parse_operand("R3.H1").is_plain_register());
  EXPECT_TRUE(parse_operand("R3.reuse").is_plain_register());
  EXPECT_EQ(parse_operand("!P1").kind, Operand::Kind::predicate);
  EXPECT_TRUE(parse_operand("!P1").inverted);
  EXPECT_EQ(parse_operand("PT").number, kTrue);
  EXPECT_EQ(parse_operand("-0x10").value, -16);
  EXPECT_EQ(parse_operand("0xfffffff0").value, 0xfffffff0);
  for (const char* text : {"c[0x0][0x140]", "[R4+0x20]", "SR_TID.X", "", "-", "|", "R", "Rx", "1.5", "+INF"}) {
    EXPECT_EQ(parse_operand(text).kind, Operand::Kind::other) << text;
  }
}

TEST(Operands, TwoRegistersOfABankCostAClock) {
  EXPECT_EQ(conflicts("FFMA R0, R1, R2, R3"), 0);
  EXPECT_EQ(conflicts("FFMA R0, R1, R5, R3"), 1);
  EXPECT_EQ(conflicts("FFMA R0, R1, R5, R9"), 2);
  EXPECT_EQ(conflicts("FFMA R0, R1, R1, R3"), 0) << "one register twice";
  EXPECT_EQ(conflicts("FFMA R1, R5, c[0x0][0x4], R9"), 1) << "what is written does not count";
  EXPECT_EQ(conflicts("ISETP.LT.AND P0, PT, R1, R5, PT"), 1);
  EXPECT_EQ(conflicts("FFMA R0, RZ, R3, RZ"), 0) << "RZ is in no bank";
}

TEST(Operands, WhatIsKeptForReuseIsNotReadAgain) {
  const char* const wanted = "FFMA R0, R1, R5, R3";
  EXPECT_EQ(conflicts(wanted, {"FFMA R2, R1.reuse, R6, R2"}), 0);
  EXPECT_EQ(conflicts(wanted, {"FFMA R2, R1, R6, R2"}), 1) << "not marked";
  EXPECT_EQ(conflicts("ISETP.LT.AND P0, PT, R1, R5, PT", {"FFMA R2, R1.reuse, R6, R2"}), 0) << "slots, not operands";
  EXPECT_EQ(conflicts("FFMA R0, R5, R1, R3", {"FFMA R2, R1.reuse, R6, R2"}), 1) << "kept for another slot";
  EXPECT_EQ(conflicts("FFMA R0, R9, R5, R3", {"FFMA R2, R1.reuse, R6, R2"}), 1) << "another register";
  EXPECT_EQ(conflicts("FFMA R0, R1, R5, R9", {"FFMA R2, R1.reuse, R6, R2"}), 1) << "two others are left";
}

TEST(Operands, ASlotKeepsTwoRegisters) {
  const char* const wanted = "FFMA R0, R1, R5, R3";
  const std::string first = "FFMA R2, R1.reuse, R6, R2", other = "FFMA R2, R4, R6, R2";
  EXPECT_EQ(conflicts(wanted, {first, other, other, other}), 0) << "what is not marked leaves it";
  EXPECT_EQ(conflicts(wanted, {first, "FFMA R2, R4.reuse, R6, R2"}), 0) << "and one that is";
  EXPECT_EQ(conflicts(wanted, {first, "FFMA R2, R4.reuse, R6, R2", "FFMA R2, R7.reuse, R6, R2"}), 1) << "not two";
  EXPECT_EQ(conflicts(wanted, {first, "FFMA R2, R1, R6, R2"}), 1) << "read without the mark, it goes";
  EXPECT_EQ(conflicts(wanted, {first, "FFMA R2, R1.reuse, R6, R2"}), 0) << "and with it, it stays";
}

TEST(Operands, ProductsAreOfRegistersAsTheyAre) {
  for (const char* text :
       {"FFMA R0, R1, R2, R0", "FFMA R0, R1.reuse, R2, R0", "FFMA R0, R1, R2, RZ", "FFMA R0, R1, R2, R3"}) {
    EXPECT_TRUE(adds_product(one(text))) << text;
  }
  for (const char* text : {"FFMA R0, R1, c[0x0][0x140], R0", "FFMA R0, R1, R2, -R3", "FFMA R0, R1, 0.5, R0",
                           "FFMA R0, -R1, R2, R0", "FMUL R0, R1, R2", "IADD R0, R1, R0"}) {
    EXPECT_FALSE(adds_product(one(text))) << text;
  }
}

TEST(Operands, BytesAndUnits) {
  EXPECT_EQ(bytes_each(one("LDS.U.128 R0, [R4]")), 16);
  EXPECT_EQ(bytes_each(one("LDG.E.64 R0, [R4]")), 8);
  EXPECT_EQ(bytes_each(one("STS [R4], R0")), 4);
  EXPECT_EQ(unit_of(one("FFMA R0, R1, R2, R0")), Unit::math);
  EXPECT_EQ(unit_of(one("ISETP.LT.AND P0, PT, R0, R1, PT")), Unit::half);
  EXPECT_EQ(unit_of(one("F2F.F32.F16 R0, R1.H1")), Unit::special);
  EXPECT_EQ(unit_of(one("SHFL.BFLY PT, R0, R1, 0x1, 0x1f")), Unit::shared);
  EXPECT_EQ(unit_of(one("LDG.E R0, [R4]")), Unit::global);
  EXPECT_EQ(unit_of(one("BAR.SYNC 0x0")), Unit::barrier);
  EXPECT_EQ(unit_of(one("@P0 BRA `(.L_1)")), Unit::control);
  EXPECT_EQ(unit_of(one("WHATEVER R0")), Unit::math) << "what is not known takes a slot and nothing else";
}

}  // namespace
}  // namespace weft::sass
