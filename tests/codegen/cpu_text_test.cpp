/// The LLVM IR of a CPU kernel as a text: what it follows from.

#include "codegen/cpu/emit.h"
#include "compiler/ir/lower.h"
#include "compiler/planner/planner.h"
#include "dsl/parse.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

ir::Plan plan_of(const std::string& body, const Target& target) {
  const auto file = dsl::parse({"input.weft", "pattern p { heads 8; dim 64; dtype f32; " + body + " }"}).value();
  const auto pattern = ir::lower(file, "p", {}).value();
  return planner::plan(pattern, {.d = 64, .d_v = 64, .dtype = ir::DType::f32}, target).value();
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

}  // namespace
}  // namespace weft::test
