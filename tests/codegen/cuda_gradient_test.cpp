#include "codegen/cuda/emit.h"
#include "compiler/ir/few_rows.h"
#include "compiler/ir/lower.h"
#include "compiler/ir/tables.h"
#include "compiler/planner/planner.h"
#include "dsl/parse.h"
#include "runtime/nvrtc/compile.h"
#include "runtime/nvrtc/search.h"
#include "tests/support/effort.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

/// The texts of backward passes on GPUs: dQ by tiles of queries, dK and dV by tiles of keys, and what inputs get.
namespace weft::testing {
namespace {

ir::Pattern pattern_of(const std::string& body) {
  const Source source{"input.weft", fmt::format("pattern p {{ heads 8; {} }}", body)};
  const auto file = dsl::parse(source);
  EXPECT_TRUE(file.ok());
  auto pattern = ir::lower(*file, "p", {});
  EXPECT_TRUE(pattern.ok()) << pattern.error().message;
  return std::move(*pattern);
}

ir::Plan planned(const char* body, std::int64_t d, std::int64_t d_v, ir::DType dtype, const Target& target) {
  auto plan = planner::plan(pattern_of(body), {.d = d, .d_v = d_v, .dtype = dtype, .gradient = true}, target);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return std::move(*plan);
}

TEST(CudaGradients, FitEveryArchitecture) {
  int fitting = 0;
  for (const char* const body :
       {"branches dilated(segments: [256, 512, 1024], rates: [1, 2, 4]);",
        "branch causal; branch window(5, 0); combine sum;",
        "input doc: i32[batch, tokens]; input gate: f32[heads]; keep causal & document(doc); score s * gate[h];"}) {
    for (const Target& target : known_targets()) {
      if (target.kind != TargetKind::cuda) continue;
      for (std::int64_t d = 1; d <= 256; d += d == 1 ? 7 : 8) {
        for (const auto dtype : {ir::DType::f32, ir::DType::f16, ir::DType::bf16}) {
          for (const std::int64_t d_v : {d, std::int64_t{64}, std::int64_t{256}}) {
            const auto plan = planned(body, d, d_v, dtype, target);
            for (const auto regime : ir::regimes_of(plan)) {
              const auto& of = ir::plan_of(plan, regime);
              const auto terms = ir::make_tables(of, 8).value().most_terms;
              EXPECT_LE(codegen::cuda::shared_memory(of).with_terms(terms), target.shared_per_block)
                  << target.name << ", d " << d << ", d_v " << d_v << ", " << ir::to_string(dtype) << ", "
                  << ir::to_string(regime) << ": " << body;
              ++fitting;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(fitting, 5000);
}

class CompiledGradients : public ::testing::TestWithParam<const char*> {};

/// sm_75 spills some bytes at 128 columns, where rows of keys wait in registers.
TEST_P(CompiledGradients, ByMatricesDoNotSpill) {
  const std::string name = GetParam();
  const bool all = test::tries_all();
  const bool every = std::getenv("WEFT_TEST_EVERY_KERNEL") != nullptr;
  const bool is_compiled = every || name == "sm_80" || (all && (name == "sm_75" || name == "sm_90"));
  if (!is_compiled) GTEST_SKIP() << "WEFT_TEST_ALL or WEFT_TEST_EVERY_KERNEL compile for " << name;
  const Target target = find_target(name).value();
  const auto library = nvrtc::locate(target);
  ASSERT_TRUE(library.ok()) << library.error().message;
  std::size_t number = 0;
  for (const char* const body :
       {"branch all;", "keep causal;",
        "branches dilated(segments: [256, 512], rates: [1, 2], phase: h % rate); keep causal;",
        "branch causal; branch window(5, 0); combine sum;", "keep window(100, 0); score softcap(s, 9.0);"}) {
    if (!all && body != std::string_view("keep causal;")) continue;
    const bool is_its_turn = test::takes_turn(number++, name == "sm_75" ? 0 : 1, 2);
    if (!every && name != "sm_80" && !is_its_turn) continue;  // sm_80 is whole, the others take turns
    for (const std::int64_t d : {64, 128}) {
      if (d == 128 && name == "sm_75") continue;
      const auto plan = planned(body, d, d, ir::DType::f16, target);
      for (const auto regime : ir::regimes_of(plan)) {
        const auto& of = ir::plan_of(plan, regime);
        ASSERT_EQ(of.choices.kernel_class, ir::KernelClass::mma);
        const auto binary = nvrtc::compile(**library, codegen::cuda::emit(of, target).text, target, {.pattern = "p"});
        ASSERT_TRUE(binary.ok()) << body << ": " << binary.error().message;
        EXPECT_EQ(binary->log.find("weft_kernel.cu("), std::string::npos) << binary->log;
        EXPECT_EQ(binary->spill_bytes(), 0) << body << ", d " << d << ", " << ir::to_string(regime);
      }
    }
  }
}

/// Where nothing is said of single pairs; scores and dropout spill some bytes.
TEST(GradientsOnPlainLanes, DoNotSpill) {
  const bool all = test::tries_all();
  const Target target = find_target("sm_61").value();
  const auto library = nvrtc::locate(target);
  ASSERT_TRUE(library.ok()) << library.error().message;
  for (const std::int64_t d : {64, 128}) {
    for (const auto dtype : {ir::DType::f32, ir::DType::f16, ir::DType::bf16}) {
      if (!all && (d == 128) != (dtype == ir::DType::f32)) continue;
      for (const char* const body :
           {"branch all;", "branches dilated(segments: [256, 512], rates: [1, 2], phase: h % rate); keep causal;"}) {
        if (!all && body == std::string_view("branch all;")) continue;
        const bool counts = body != std::string_view("branch all;");
        if (counts && d == 64 && dtype == ir::DType::f32) continue;  // 24 bytes of dK and dV
        const auto plan = planned(body, d, d, dtype, target);
        for (const auto regime : ir::regimes_of(plan)) {
          const auto text = codegen::cuda::emit(ir::plan_of(plan, regime), target).text;
          const auto binary = nvrtc::compile(**library, text, target, {.pattern = "p"});
          ASSERT_TRUE(binary.ok()) << body << ": " << binary.error().message;
          EXPECT_EQ(binary->spill_bytes(), 0)
              << body << ", d " << d << ", " << ir::to_string(dtype) << ", " << ir::to_string(regime);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, CompiledGradients,
                         ::testing::Values("sm_75", "sm_80", "sm_86", "sm_89", "sm_90"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace weft::testing
