/// The LLVM IR of a CPU kernel as a text: what it follows from.

#include "codegen/cpu/emit.h"
#include "compiler/ir/lower.h"
#include "compiler/planner/planner.h"
#include "dsl/parse.h"

#include <gtest/gtest.h>

#include <sstream>

namespace weft::test {
namespace {

ir::Plan plan_of(const std::string& body, const Target& target, bool gradient = false) {
  const auto file = dsl::parse({"input.weft", "pattern p { heads 8; dim 64; dtype f32; " + body + " }"}).value();
  const auto pattern = ir::lower(file, "p", {}).value();
  return planner::plan(pattern, {.d = 64, .d_v = 64, .dtype = ir::DType::f32, .gradient = gradient}, target).value();
}

/// Planners share parts of expressions in memory; a text that is read again does not.
TEST(CpuTexts, APlanAndItsTextGiveTheSameKernel) {
  for (const char* name : {"cpu:x86-64-v3", "cpu:x86-64-v4"}) {
    const Target target = find_target(name).value();
    for (const char* body :
         {"keep causal;", "branches dilated(segments: [512, 1024], rates: [1, 2]); keep causal;",
          "input doc: i32[batch, tokens]; keep causal & document(doc);", "keep where(k % 64 == q % 64 or q - k < 32);",
          "grid 64, 64; branch neighborhood(size: [7, 7], dilation: [1, 1]);",
          "input bias: f32[heads, 257]; score s + bias[h, min(max(q - k, -128), 128) + 128];"}) {
      const auto plan = plan_of(body, target);
      const auto again = ir::parse_plan(ir::print(plan));
      ASSERT_TRUE(again.ok()) << again.error().message;
      EXPECT_TRUE(codegen::cpu::emit(plan, target).text == codegen::cpu::emit(*again, target).text) << body;
    }
  }
}

TEST(CpuTexts, SayWhatFunctionsDoAndWhatValuesAre) {
  const Target target = find_target("cpu:x86-64-v4").value();
  const auto causal = plan_of("keep causal;", target);
  const std::string texts[] = {
      codegen::cpu::emit(causal, target).text, codegen::cpu::emit(causal, target, ir::Regime::few_queries).text,
      codegen::cpu::emit(plan_of("keep causal;", target, true), target).text,
      codegen::cpu::emit(plan_of("keep blocks(16, top(3, by: pooled)); score softcap(s, 30); dropout 0.5;", target),
                         target)
          .text};
  for (const auto& text : texts) {
    std::istringstream lines(text);
    std::string before, line;
    for (; std::getline(lines, line); before = line) {
      const bool told = !line.starts_with("define ") || before.starts_with("; ");
      EXPECT_TRUE(told) << line;
    }
  }
  // S += K Q^T, by rows of K and columns of Q, and what the addresses came from.
  const auto products = texts[0].find("fmuladd.v16f32(<16 x float> %keys.");
  ASSERT_NE(products, std::string::npos);
  const auto begin = texts[0].rfind('\n', products) + 1;
  const auto product = texts[0].substr(begin, texts[0].find('\n', products) - begin);
  EXPECT_EQ(product.find("  %s."), 0U) << product;
  EXPECT_NE(product.find("> %q."), std::string::npos) << product;
}

}  // namespace
}  // namespace weft::test
