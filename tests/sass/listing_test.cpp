#include "assembly.h"

namespace weft::sass {
namespace {

TEST(Listing, HasInstructionsWithTheirControl) {
  const Code code = assembled({{"MOV R1, c[0x0][0x20]", {.stall = 6}},
                               {"@!P2 LDS.U.128 R4, [R8+0x10]", {.stall = 2, .write_barrier = 3, .read_barrier = 0}},
                               {"FFMA R0, R1.reuse, -R2, R0", {.stall = 1, .waits = 9, .reuse = 1}},
                               {"EXIT", {.stall = 13, .yields = true}}});
  EXPECT_EQ(code.name, "kernel");
  EXPECT_EQ(code.registers, 32);
  EXPECT_FALSE(code.wide);
  ASSERT_EQ(code.instructions.size(), 6U) << "filled with NOP";
  const Instruction &load = code.instructions[1], &add = code.instructions[2], &last = code.instructions[3];
  EXPECT_EQ(load.address, 0x10);
  EXPECT_EQ(load.opcode, "LDS.U.128");
  EXPECT_EQ(load.name(), "LDS");
  EXPECT_TRUE(load.has("128"));
  EXPECT_FALSE(load.has("12"));
  EXPECT_EQ(load.guard, 2);
  EXPECT_TRUE(load.guard_inverted);
  EXPECT_EQ(load.control.stall, 2);
  EXPECT_FALSE(load.control.yields);
  EXPECT_EQ(load.control.write_barrier, 3);
  EXPECT_EQ(load.control.read_barrier, 0);
  EXPECT_EQ(add.control.waits, 9U);
  EXPECT_EQ(add.control.reuse, 1U);
  EXPECT_EQ(add.control.write_barrier, kNone);
  ASSERT_EQ(add.operands.size(), 4U);
  EXPECT_TRUE(add.operands[1].reused);
  EXPECT_TRUE(add.operands[2].negated);
  EXPECT_EQ(last.address, 0x28) << "behind the second control word";
  EXPECT_TRUE(last.control.yields);
  EXPECT_EQ(last.control.stall, 13);
}

TEST(Listing, PairsStandInBraces) {
  const Code code = assembled({{"FFMA R0, R1, R2, R0", stalls(0)}, {"LDS R4, [R8]", stalls(2)}, {"NOP", stalls(5)}});
  ASSERT_EQ(code.instructions.size(), 3U);
  EXPECT_EQ(code.instructions[0].opcode, "FFMA");
  EXPECT_EQ(code.instructions[0].control.stall, 0);
  EXPECT_EQ(code.instructions[1].opcode, "LDS");
  EXPECT_EQ(code.instructions[1].control.stall, 2);
  EXPECT_EQ(code.instructions[2].control.stall, 5) << "the pair's second encoding is no control word";
}

TEST(Listing, JumpsLeadToInstructions) {
  const Code code = assembled({{"SSY `(.L_x_2)"},
                               {".L_x_1:"},
                               {"@P0 SYNC (*\"BRANCH_TARGETS .L_x_2\"*)"},
                               {"BRA `(.L_x_1)"},
                               {".L_x_2:"},
                               {"BRA 0x10"}});
  EXPECT_EQ(code.instructions[0].targets, std::vector<int>{3});
  EXPECT_EQ(code.instructions[1].targets, std::vector<int>{3});
  EXPECT_TRUE(code.instructions[1].operands.empty());
  EXPECT_EQ(code.instructions[2].targets, std::vector<int>{1});
  EXPECT_EQ(code.instructions[3].targets, std::vector<int>{1}) << "cuobjdump writes addresses";
}

TEST(Listing, FromVoltaOnControlStandsInTheSecondWord) {
  const char* const text =
      "\t.section\t.text.wide,\"ax\",@progbits\n"
      ".text.wide:\n"
      "        /*0000*/                   BSSY B1, `(.L_x_5) ;       /* 0x000001c000017945 */\n"
      "                                                              /* 0x000fe20003800000 */\n"
      "        /*0010*/              @!P0 HMMA.16816.F32 R4, R8, R12, R4 ;   /* 0x0000000c08048223 */\n"
      "                                                              /* 0x004fee0000001804 */\n"
      "        /*0020*/                   BSYNC B1 ;                 /* 0x0000000000017941 */\n"
      "                                                              /* 0x000fea0003800000 */\n"
      ".L_x_5:\n"
      "        /*0030*/                   EXIT ;                     /* 0x000000000000794d */\n"
      "                                                              /* 0x000fea0003800000 */\n";
  const auto codes = parse_listing(text);
  ASSERT_TRUE(codes.ok()) << codes.error().message;
  const Code& code = codes->front();
  EXPECT_TRUE(code.wide);
  ASSERT_EQ(code.instructions.size(), 4U);
  EXPECT_EQ(code.instructions[1].control.stall, 7);
  EXPECT_EQ(code.instructions[1].control.waits, 4U);
  EXPECT_EQ(code.instructions[2].targets, std::vector<int>{3}) << "what BSSY said of its register";
}

TEST(Listing, BlackwellsRemarksAreNoOperands) {
  const auto codes = parse_listing(
      "\t.section\t.text.wide,\"ax\",@progbits\n"
      "        /*0000*/                   FFMA R4, R8.reuse, R12, R4      &req={0}     ?trans1;   /* "
      "0x0000000c08048223 */\n"
      "                                                                    /* 0x004fee0000001804 */\n"
      "        /*0010*/               @P0 BRA 0x0       &wr=0x1   ?WAIT5_END_GROUP;   /* 0x0000000c08048223 */\n"
      "                                                                    /* 0x004fee0000001804 */\n");
  ASSERT_TRUE(codes.ok());
  const auto& code = codes->front().instructions;
  ASSERT_EQ(code[0].operands.size(), 4U);
  EXPECT_TRUE(code[0].operands[3].is_register(4));
  EXPECT_EQ(code[1].targets, std::vector<int>{0});
}

TEST(Listing, EverySectionOfCodeIsAnEntry) {
  const auto codes =
      parse_listing(listing({{"EXIT"}}, "one") + "\t.section\t.nv.shared,\"aw\",@nobits\n\t.align\t16\n" +
                    listing({{"NOP"}, {"EXIT"}}, "two"));
  ASSERT_TRUE(codes.ok());
  ASSERT_EQ(codes->size(), 2U);
  EXPECT_EQ((*codes)[0].name, "one");
  EXPECT_EQ((*codes)[1].name, "two");
}

TEST(Listing, WithoutEncodingsTheErrorNamesTheOption) {
  const auto refused = parse_listing("\t.section\t.text.k,\"ax\"\n        /*0008*/  MOV R1, RZ ;\n");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("0x8 of k"), std::string::npos);
  EXPECT_NE(refused.error().message.find("--print-instruction-encoding"), std::string::npos);
}

TEST(Listing, AnotherTextIsRefused) {
  for (const char* text : {"", "\n\n", "int main() {}", "\t.section\t.text.k,\"ax\"\n", "/*0008*/ MOV R1, RZ ;"}) {
    const auto refused = parse_listing(text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(refused.error().kind, ErrorKind::user);
  }
}

TEST(Listing, CutOffAnywhereItIsReadOrRefused) {
  const std::string whole = listing({{"SSY `(.L_1)"}, {"@P0 LDG.E.64 R2, [R4+-0x8]", stalls(0)}, {".L_1:"}, {"EXIT"}});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto codes = parse_listing(std::string_view(whole).substr(0, length));
    EXPECT_LE(codes.ok() ? codes->front().instructions.size() : 0, 3U);
  }
}

}  // namespace
}  // namespace weft::sass
