#include "codegen/cpu/emit.h"
#include "codegen/cpu/kernel.h"
#include "compiler/planner/planner.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>

/// Products of bf16 in pairs or widened to f32: who decides, and where it shows.
namespace weft::planner {
namespace {

using ir::DType;

Target measured(Target target, double rate) {
  target.bf16_dot_rate = rate;
  target.bf16_dot_measured = true;
  return target;
}

Result<ir::Plan> plan_for(const Target& target, DType dtype, std::optional<int> asked = {}) {
  ir::Pattern pattern;
  pattern.name = "dense";
  pattern.branches.push_back({.set = ir::make_set(ir::SetKind::all), .heads = {}, .range = {}});
  if (asked) pattern.schedule.push_back({.key = "products", .value = *asked, .range = {}});
  return plan(pattern, {.d = 64, .d_v = 64, .dtype = dtype}, target);
}
int products(const Target& target, DType dtype, std::optional<int> asked = {}) {
  return plan_for(target, dtype, asked).value().choices.products;
}
Target row(const char* name) { return find_target(name).value(); }

std::string first_reason(const Target& target) { return plan_for(target, DType::bf16).value().reasons.front(); }

// These targets' rates are those of their processors: cross-compiled kernels depend on them.
TEST(Products, TheTableDecidesForOtherMachines) {
  EXPECT_EQ(products(row("cpu:znver4"), DType::bf16), 2);
  EXPECT_EQ(products(row("cpu:znver5"), DType::bf16), 2);
  EXPECT_EQ(products(row("cpu:sapphirerapids"), DType::bf16), 1);
  EXPECT_EQ(products(row("cpu:x86-64-v4"), DType::bf16), 1);
  EXPECT_EQ(products(row("cpu:haswell"), DType::bf16), 1);
  EXPECT_NE(first_reason(row("cpu:znver4")).find("bf16 in pairs"), std::string::npos);
  EXPECT_NE(first_reason(row("cpu:znver4")).find("2.0 times the products of f32, by the table"), std::string::npos);
  EXPECT_NE(first_reason(row("cpu:sapphirerapids")).find("bf16 widened"), std::string::npos);
}

TEST(Products, AMeasuredRateDecidesAgainstTheTable) {
  EXPECT_EQ(products(measured(row("cpu:znver4"), 1.0), DType::bf16), 1);
  EXPECT_EQ(products(measured(row("cpu:sapphirerapids"), 2.0), DType::bf16), 2);
  EXPECT_NE(first_reason(measured(row("cpu:znver4"), 1.0)).find("1.0 times the products of f32, measured here"),
            std::string::npos);
}

// A machine of either kind that is a fifth off stays what it is.
TEST(Products, NoiseDoesNotFlipThem) {
  for (const double rate : {0.8, 1.2}) EXPECT_EQ(products(measured(row("cpu:znver4"), rate), DType::bf16), 1) << rate;
  for (const double rate : {1.6, 2.4}) EXPECT_EQ(products(measured(row("cpu:znver4"), rate), DType::bf16), 2) << rate;
}

TEST(Products, OnlyBf16HasPairs) {
  for (const auto dtype : {DType::f32, DType::f16}) {
    EXPECT_EQ(products(row("cpu:znver4"), dtype), 1);
    EXPECT_EQ(products(row("cpu:znver4"), dtype, 2), 1) << "a schedule cannot ask for what does not exist";
  }
  EXPECT_EQ(products(row("cpu:haswell"), DType::bf16, 2), 1);
  EXPECT_EQ(products(row("sm_80"), DType::bf16, 2), 1);
}

TEST(Products, AScheduleForcesEitherForm) {
  EXPECT_EQ(products(row("cpu:znver4"), DType::bf16, 1), 1);
  EXPECT_EQ(products(row("cpu:sapphirerapids"), DType::bf16, 2), 2);
  const auto impossible = plan_for(row("cpu:znver4"), DType::bf16, 3);
  ASSERT_FALSE(impossible.ok());
  EXPECT_EQ(impossible.error().diagnostics.at(0).code, "E0407");
}

// The kernel's text is its key: of two forms a store must have two kernels. Only the products differ: the reasons that
// led to them change nothing.
TEST(Products, BothFormsDifferInPlanAndText) {
  const Target target = row("cpu:znver4");
  const auto pairs = plan_for(target, DType::bf16, 2).value(), widened = plan_for(target, DType::bf16, 1).value();
  EXPECT_NE(ir::print(pairs).find(" products 2\n"), std::string::npos) << ir::print(pairs);
  EXPECT_EQ(ir::print(widened).find(" products 2\n"), std::string::npos);
  const auto text = [&](const ir::Plan& plan) { return codegen::cpu::emit(plan, target).text; };
  EXPECT_NE(text(pairs).find("dpbf16ps"), std::string::npos);
  EXPECT_EQ(text(widened).find("dpbf16ps"), std::string::npos);
  EXPECT_EQ(text(pairs), text(plan_for(measured(target, 2.1), DType::bf16).value()));
  EXPECT_EQ(text(widened), text(plan_for(measured(target, 0.9), DType::bf16).value()));
  const auto bytes = [&](const ir::Plan& plan) {
    return codegen::cpu::scratch_bytes(codegen::cpu::Kernel(plan, target), 1);
  };
  EXPECT_NE(bytes(pairs), bytes(widened));
}

TEST(Products, ArePartOfThePlansText) {
  const auto plan = plan_for(row("cpu:znver4"), DType::bf16).value();
  const auto again = ir::parse_plan(ir::print(plan));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->choices, plan.choices);
  EXPECT_EQ(ir::print(*again), ir::print(plan));
  const auto breaks = [&](const char* what, const std::function<void(ir::Plan&)>& change) {
    auto wrong = plan;
    change(wrong);
    EXPECT_FALSE(ir::verify(wrong).empty()) << what;
  };
  breaks("three", [](ir::Plan& p) { p.choices.products = 3; });
  breaks("none", [](ir::Plan& p) { p.choices.products = 0; });
  breaks("pairs of f16", [](ir::Plan& p) { p.bind.dtype = DType::f16; });
  breaks("vectors of eight", [](ir::Plan& p) { p.choices.sub_q = 8; });
  breaks("half a pair", [](ir::Plan& p) { p.choices.sub_k = 1; });
}

}  // namespace
}  // namespace weft::planner
