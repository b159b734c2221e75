#include "runtime/llvm/compile.h"

#include "runtime/object/elf.h"
#include "tests/llvm/kernels.h"

#include <thread>

// LeakSanitizer asks for this: what LLVM held when it gave up is abandoned by contract (guard.h).
extern "C" [[gnu::visibility("default")]] const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libLLVM"; }

namespace weft::llvm {
namespace {

Target named(const std::string& name) { return *find_target(name); }

TEST(LlvmCompile, EveryCpuTargetGivesAnObjectWithoutUndefinedSymbols) {
  for (const Target& target : cpu_targets()) {
    SCOPED_TRACE(target.name);
    testing::internal::CaptureStderr();
    const std::string bytes = compiled(kProbeIr, target);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "LLVM 16 must know the row's CPU";
    const auto undefined = object::undefined_symbols(bytes);
    ASSERT_TRUE(undefined.ok());
    EXPECT_TRUE(undefined->empty()) << undefined->front();
  }
}

// The control for the test above.
TEST(LlvmCompile, AnUndefinedSymbolIsSeen) {
  const std::string bytes = compiled(
      "declare float @expf(float)\ndefine float @f(float %x) {\n  %r = call float @expf(float %x)\n  ret float %r\n}\n",
      named("cpu:x86-64"));
  const auto undefined = object::undefined_symbols(bytes);
  ASSERT_TRUE(undefined.ok());
  EXPECT_EQ(*undefined, std::vector<std::string>{"expf"});
}

TEST(LlvmCompile, TheTargetDecidesTheInstructions) {
  const auto llvm = library();
  ASSERT_NE(llvm, nullptr);
  const char* ir = R"(
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
define void @f(ptr %x) {
  %v = load <16 x float>, ptr %x, align 4
  %r = call <16 x float> @llvm.fma.v16f32(<16 x float> %v, <16 x float> %v, <16 x float> %v)
  store <16 x float> %r, ptr %x, align 4
  ret void
}
)";
  const auto has = [&](const char* target, const char* word) {
    const auto text = assembly(*llvm, ir, named(target));
    EXPECT_TRUE(text.ok()) << text.error().message;
    return text.ok() && text->find(word) != std::string::npos;
  };
  EXPECT_TRUE(has("cpu:x86-64-v4", "%zmm"));
  EXPECT_TRUE(has("cpu:x86-64-v4", "vfmadd"));
  EXPECT_FALSE(has("cpu:x86-64-v3", "%zmm"));
  EXPECT_TRUE(has("cpu:x86-64-v3", "%ymm"));
  EXPECT_TRUE(has("cpu:x86-64-v3", "vfmadd"));
  EXPECT_FALSE(has("cpu:x86-64", "%ymm"));
  EXPECT_FALSE(has("cpu:x86-64", "vfmadd"));
}

TEST(LlvmCompile, InvalidIrIsAnInternalErrorWithLlvmsMessageAndNothingIsPrinted) {
  const auto llvm = library();
  ASSERT_NE(llvm, nullptr);
  const std::pair<const char*, const char*> cases[] = {
      {"this is no IR", "expected top-level entity"},
      {"define i32 @f() {\n  ret i64 0\n}\n", "value doesn't match function result type"},
      {"define i32 @f() {\n  ret i32 %missing\n}\n", "use of undefined value '%missing'"},
      {"define void @f(ptr %x) {\n  %a = load i32, ptr %x\n", "found end of file"},
      // Parses; the verifier objects.
      {"define i32 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i32 1, 2\n  br label %b\nb:\n  ret i32 "
       "%x\n}\n",
       "does not dominate"},
      // Verifies; the target has no such instruction.
      {"declare <16 x float> @llvm.x86.avx512.rcp14.ps.512(<16 x float>, <16 x float>, i16)\n"
       "define <16 x float> @f(<16 x float> %x) {\n  %r = call <16 x float> @llvm.x86.avx512.rcp14.ps.512("
       "<16 x float> %x, <16 x float> %x, i16 -1)\n  ret <16 x float> %r\n}\n",
       "gave up"},
      // Selects; the assembler objects.
      {"define void @f() {\n  call void asm sideeffect \"no such instruction\", \"\"()\n  ret void\n}\n",
       "no such instruction"}};
  for (const auto& [ir, expected] : cases) {
    SCOPED_TRACE(ir);
    testing::internal::CaptureStderr();
    const auto result = compile(*llvm, ir, named("cpu:x86-64"));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::internal);
    EXPECT_NE(result.error().message.find(expected), std::string::npos) << result.error().message;
  }
  EXPECT_FALSE(compiled(kProbeIr, named("cpu:x86-64")).empty()) << "LLVM goes on after all of them";
}

TEST(LlvmCompile, AnEmbeddedNulDoesNotEndTheText) {
  const auto llvm = library();
  ASSERT_NE(llvm, nullptr);
  std::string ir = "define void @f() {\n  ret void\n}\n";
  ir += '\0';
  ir += "define nonsense";
  EXPECT_FALSE(compile(*llvm, ir, named("cpu:x86-64")).ok());
}

TEST(LlvmCompile, OtherTargetsAndLevelsAreRefused) {
  const auto llvm = library();
  ASSERT_NE(llvm, nullptr);
  EXPECT_FALSE(compile(*llvm, kProbeIr, named("sm_61")).ok());
  EXPECT_FALSE(compile(*llvm, kProbeIr, named("interpreter")).ok());
  EXPECT_FALSE(compile(*llvm, kProbeIr, named("cpu:x86-64"), {.level = 4, .passes = {}}).ok());
}

TEST(LlvmCompile, PassesRunWhenAskedFor) {
  const auto llvm = library();
  ASSERT_NE(llvm, nullptr);
  const char* ir =
      "define i32 @f(i32 %x) {\n  %s = alloca i32\n  store i32 %x, ptr %s\n  %y = load i32, ptr %s\n  ret i32 %y\n}\n";
  const auto plain = assembly(*llvm, ir, named("cpu:x86-64"));
  const auto optimised = assembly(*llvm, ir, named("cpu:x86-64"), {.passes = "default<O2>"});
  ASSERT_TRUE(plain.ok() && optimised.ok());
  EXPECT_NE(plain->find("(%rsp)"), std::string::npos) << "without passes the slot stays";
  EXPECT_EQ(optimised->find("(%rsp)"), std::string::npos);
  const auto unknown = compile(*llvm, ir, named("cpu:x86-64"), {.passes = "no-such-pass"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("no-such-pass"), std::string::npos);
}

TEST(LlvmCompile, ThreadsGetTheSameBytes) {
  const Target target = named("cpu:x86-64-v3");
  const std::string expected = compiled(kProbeIr, target);
  ASSERT_FALSE(expected.empty());
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::string& result : results) {
    threads.emplace_back([&result, &target] {
      // A fatal error between two compilations must disturb neither them nor the neighbours.
      for (int i = 0; i < 3; ++i) {
        result = compiled(kProbeIr, target);
        EXPECT_FALSE(compile(*library(), "declare i64 @llvm.read_register.i64(metadata)\nnonsense", target).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace weft::llvm
