#include "compiler/ir/lower.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/planner/planner.h"
#include "dsl/parse.h"
#include "tests/codegen/any_kernel.h"
#include "tests/codegen/random_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

/// Patterns with scores, dropout and conditions on pairs, whole kernels against the pattern interpreter.
namespace weft::testing {
namespace {

constexpr std::int64_t kQueries = 90;

struct Case {
  const char* name;
  const char* body;
  std::vector<std::vector<std::int64_t>> inputs = {};  ///< extents; H and n_k are 4 and 150, kQueries stands for n_q
};

const Case kCases[] = {
    {"alibi", "keep causal; score s + alibi(h) * (k - q);"},
    {"softcap", "keep window(70, 0); score softcap(s, 5.0);"},
    {"relative_bias", "input t: f32[heads, 25]; score s + t[h, min(max(q - k, -12), 12) + 12];", {{4, 25}}},
    {"bias_of_a_pair", "input t: f32[heads, queries, keys]; keep causal; score s + t[h, q, k];", {{4, kQueries, 150}}},
    {"sorts_of_inputs",
     "input w: i32[batch, tokens]; input u: u8[keys]; score s + 0.001 * (w[b, k] % 64) + 0.01 * u[k];",
     {{2, 150}, {150}}},
    {"lengths_beside_a_bias", "input t: f32[3]; input n: i32[batch]; keep lengths(n); score s * t[k % 3];", {{3}, {2}}},
    {"some_weigh_nothing", "keep causal; score select(k % 3 == 0, s, log(0.0 * s));"},
    {"rows_weigh_nothing", "keep causal; score select(q % 3 == 0, s, log(0.0 * s));"},
    {"some_are_minus_infinity", "keep window(60, 60); score select(k % 3 == 0, s, -inf);"},
    {"rows_are_minus_infinity", "keep causal; score select(q % 3 == 0, s, -inf) + max(-inf, s, 0.5);"},
    {"scale_zero", "keep causal; scale 0.0;"},
    {"scale_negative", "scale -0.4; keep window(20, 20);"},
    {"scale_of_a_pair", "scale 0.3 / (1 + abs(q - k)); score s + 0.25 * sigmoid(s);"},
    {"several_softmaxes",
     "branch causal; branch window(9, 9); combine sum; score softcap(s, 3.0) - 0.01 * abs(q - k);"},
    {"several_phases",
     "branches dilated(segments: [64, 128], rates: [1, 2]); keep causal; score s - 0.05 * abs(q - k);"},
    {"long",
     "score s + tanh(s) * exp(-abs(s)) + log(1.0 + s * s) / sqrt(2.0 + s * s) + sigmoid(s) * tanh(2.0 * s) - "
     "exp(tanh(s - 1.0)) + sigmoid(3.0 * s + 0.1 * (q % 7)) * tanh(s / (1.0 + k % 5)) - sqrt(abs(s)) + "
     "log(2.0 + sigmoid(-s)) * exp(-s * s) + tanh(s * s) + tanh(0.5 * s) + tanh(0.25 * s + 0.01 * k);"},
    {"where_of_pairs", "keep where((q * 7 + k * 3) % 5 < 3);"},
    {"where_of_all_rows_of_a_tile", "keep window(20, 20) & where(q / 64 % 2 == 0);"},
    {"where_of_rows", "keep causal & where(q % 4 != 1);"},
    {"where_of_heads", "keep where(h % 2 == 0 or k <= q);"},
    {"where_of_inputs", "input w: i32[batch, tokens]; keep causal & where(w[b, k] % 3 != q % 3);", {{2, 150}}},
    {"documents", "input w: i32[batch, tokens]; keep causal & document(w);", {{2, 150}}},
    {"not_documents", "input w: i32[batch, tokens]; keep window(50, 0) - document(w);", {{2, 150}}},
    {"lag", "keep causal & lag(7);"},
    {"lag_or_window", "keep causal & (lag(16) | window(9, 0)); score s - 0.01 * (q - k);"},
    {"blocks", "keep blocks(16, window(2, 0) | global(1)) & causal;"},
    {"table", "input u: u8[heads, blocks, blocks]; keep blocks(32, table(u));", {{4, 5, 5}}},
    {"conditions_of_branches", "branch lag(5); branch where((q + k) % 2 == 0); keep causal; combine sum; dropout 0.2;"},
    {"dropout", "keep causal; dropout 0.3;"},
    {"dropout_of_dilated_keys",
     "branches dilated(segments: [64, 128], rates: [1, 4]); score s + 0.02 * (k - q); dropout 0.5;"},
    {"dropout_of_nearly_all", "dropout 0.99;"},
};

class Scores : public ::testing::TestWithParam<std::tuple<const char*, Case>> {};

ir::Pattern lowered(const std::string& body) {
  const Source source{"input.weft", "pattern p { " + body + " }"};
  const auto file = dsl::parse(source);
  EXPECT_TRUE(file.ok()) << source.text;
  auto pattern = ir::lower(*file, "p", {});
  EXPECT_TRUE(pattern.ok()) << pattern.error().message;
  return std::move(*pattern);
}

/// Why the kernels of a target lack something that the pattern says; empty when they have it all.
std::string refusal(const ir::Pattern& pattern, const ir::Bind& bind, const Target& target) {
  const auto plan = planner::plan(pattern, bind, target);
  return plan.ok() || plan.error().diagnostics.empty() ? "" : plan.error().diagnostics.front().message;
}

std::vector<ir::Tensor> inputs_of(const ir::Pattern& pattern, const Case& of, std::int64_t n_q) {
  std::vector<ir::Tensor> inputs;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    auto extents = of.inputs[i];
    std::replace(extents.begin(), extents.end(), kQueries, n_q);
    inputs.push_back(normal(extents, 10 + i, ir::DType::f32));
    const auto type = pattern.inputs[i].type;
    // Documents are stretches of some length, tables are sparse.
    if (of.inputs[i].size() == 2 && type == ir::InputType::i32) {
      for (std::size_t j = 0; j < inputs.back().data.size(); ++j) inputs.back().data[j] = static_cast<double>(j / 37);
      continue;
    }
    for (auto& v : inputs.back().data) {
      if (type == ir::InputType::i32) v = 70 + std::round(30 * v);
      if (type == ir::InputType::u8) v = std::min(255.0, std::abs(std::round(90 * v)));
    }
  }
  return inputs;
}

void expect_meant(const std::string& target, const Case& of, std::int64_t n_q, std::int64_t d) {
  const ir::Pattern pattern = lowered(of.body);
  const auto inputs = inputs_of(pattern, of, n_q);
  const auto dtype = best_dtype(target);
  const ir::Bind bind{.d = d, .d_v = 16, .dtype = dtype};
  if (const auto why = refusal(pattern, bind, find_target(target).value()); !why.empty()) GTEST_SKIP() << why;
  ir::Shape shape{.batch = 2, .n_q = n_q, .n_k = 150, .heads = 4, .kv_heads = 2, .d = d, .d_v = 16};
  shape.dropout_seed = 0x123456789ABCDEFU;
  const auto q = normal({2, n_q, 4, d}, 1, dtype), k = normal({2, 150, 2, d}, 2, dtype);
  const auto v = normal({2, 150, 2, 16}, 3, dtype);
  const auto want = ir::interpret(pattern, shape, q, k, v, inputs);
  ASSERT_TRUE(want.ok()) << want.error().message;
  const auto kernel = AnyKernel::make(pattern, bind, find_target(target).value());
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto got = kernel->run(shape, q, k, v, inputs, {.layout = {.head_major = true, .row_gap = 3}});
  ASSERT_TRUE(got.ok()) << got.error().message << (got.error().notes.empty() ? "" : got.error().notes.front());
  double v_max = 0;
  for (double x : v.data) v_max = std::max(v_max, std::abs(x));
  const auto bounds = ir::error_bounds(pattern, dtype, 150, v_max, want->max_abs_score);
  EXPECT_EQ(difference(got->o, want->o, bounds.o, "O"), "");
  if (!want->lse.data.empty()) {
    EXPECT_EQ(difference(got->lse, want->lse, bounds.lse, "LSE"), "");
  }
}

TEST_P(Scores, AreThoseOfThePattern) {
  const auto& [name, of] = GetParam();
  if (!can_run(name)) GTEST_SKIP() << "this machine cannot execute it";
  expect_meant(name, of, kQueries, 24);
  if (find_target(name).value().kind == TargetKind::cpu) expect_meant(name, of, 3, 32);  // lanes are columns
}

INSTANTIATE_TEST_SUITE_P(Targets, Scores,
                         ::testing::Combine(::testing::Values("cpu", "cpu:znver4", "cpu:x86-64-v3", "cpu:x86-64",
                                                              "sm_61"),
                                            ::testing::ValuesIn(kCases)),
                         [](const auto& of) {
                           std::string name = std::get<0>(of.param);
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == ':' || c == '-'; }, '_');
                           return name + "_" + std::get<1>(of.param).name;
                         });

}  // namespace
}  // namespace weft::testing
