#include "tests/faults/texts.h"
#include "tests/support/backward.h"
#include "tests/support/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

/// Faults in the backward pass of GPUs.
namespace weft::test {
namespace {

constexpr const char* kRace = "races with";
constexpr const char* kPending = "copy that nobody waits for";

struct Backward {
  const char* name;
  const char* text;
  const char* target;
  ir::DType dtype;
  ir::Shape shape;
  std::vector<Fault> faults;
};

void PrintTo(const Backward& of, std::ostream* out) { *out << of.name; }

const Backward kBackward[] = {
    {.name = "lanes",
     .text = "pattern p { branch window(40, 0); branch sink(3); keep causal; }",
     .target = "emulate:sm_61",
     .dtype = ir::DType::f32,
     .shape = {.n_q = 150, .n_k = 150, .heads = 4, .kv_heads = 2, .d = 16, .d_v = 16},
     .faults = {{"lse_in_base_e"},
                {"delta_left_out"},
                {"d_lse_left_out"},
                {"multiplicity_left_out"},
                {"scale_left_out"},
                {"parked_weights_of_other_rows"},
                {"values_behind_of_the_other_tensor"},
                {"columns_behind_of_this_product"},
                {"one_query_head_for_the_group"}}},
    {.name = "heads_apart",
     .text = "pattern p { branch window(11, 0); branches dilated(segments: [16, 32], rates: [1, 2], phase: h % rate); "
             "keep causal; }",
     .target = "emulate:sm_61",
     .dtype = ir::DType::f32,
     .shape = {.n_q = 100, .n_k = 100, .heads = 4, .kv_heads = 1, .d = 8, .d_v = 8},
     .faults = {{"conditions_on_rows_of_another_head"}}},
    {.name = "conditions_of_heads",
     .text = "pattern p { branch where(k * h / 30 % 2 == q / 10 % 2); keep causal; }",
     .target = "emulate:sm_61",
     .dtype = ir::DType::f32,
     .shape = {.n_q = 100, .n_k = 100, .heads = 4, .kv_heads = 1, .d = 8, .d_v = 8},
     .faults = {{"conditions_of_the_first_head"}}},
    {.name = "heads_in_turns",
     .text = "pattern p { branches dilated(segments: [2048, 4096, 8192], rates: [1, 2, 4], phase: h % rate); keep "
             "causal; }",
     .target = "emulate:sm_61",
     .dtype = ir::DType::f32,
     .shape = {.n_q = 150, .n_k = 150, .heads = 4, .kv_heads = 1, .d = 8, .d_v = 8},
     .faults = {{"gradients_of_the_launch_before_forgotten"}}},
    {.name = "detached",
     .text = "pattern p { branches dilated(segments: [16, 64], rates: [1, 2]); combine joint detached; }",
     .target = "emulate:sm_61",
     .dtype = ir::DType::f32,
     .shape = {.n_q = 100, .n_k = 100, .heads = 2, .kv_heads = 2, .d = 8, .d_v = 8},
     .faults = {{"delta_of_all_branches"}}},
    {.name = "dropout",
     .text = "pattern p { keep causal; dropout 0.3; }",
     .target = "emulate:sm_61",
     .dtype = ir::DType::f32,
     .shape = {.n_q = 100, .n_k = 100, .heads = 2, .kv_heads = 2, .d = 8, .d_v = 8, .offset = {}, .dropout_seed = 5},
     .faults = {{"other_pairs_dropped_than_in_the_forward"}, {"dropout_not_scaled"}}},
    {.name = "dropout_of_matrices",
     .text = "pattern p { keep causal; dropout 0.3; }",
     .target = "emulate:sm_80",
     .dtype = ir::DType::f16,
     .shape = {.n_q = 100, .n_k = 100, .heads = 2, .kv_heads = 2, .d = 16, .d_v = 16, .offset = {}, .dropout_seed = 5},
     .faults = {{"draws_of_the_other_row"}, {"draws_of_the_other_key"}, {"dropout_not_scaled_by_matrices"}}},
    {.name = "inputs",
     .text = "pattern p { input bias: f32[heads, keys]; keep causal; score s + bias[h, k]; }",
     .target = "emulate:sm_61",
     .dtype = ir::DType::f32,
     .shape = {.n_q = 100, .n_k = 100, .heads = 2, .kv_heads = 1, .d = 8, .d_v = 8},
     .faults = {{"part_of_what_inputs_get_lost"}}},
    // Of five hundred queries the first two hundred have a key at their position. Documents of forty tokens follow each
    // other in one branch, and come again in the other.
    {.name = "values",
     .text = "pattern p { input t: i32[batch, 500]; branch where(max(t[b, k], 9) + k / 40 == max(t[b, q], 9) + q / 40)"
             " on heads 0..1; branch where(max(t[b, k], 9) + k / 40 % 11 == max(t[b, q], 9) + q / 40 % 11) on heads "
             "1..2; }",
     .target = "emulate:sm_61",
     .dtype = ir::DType::f32,
     .shape = {.n_q = 500, .n_k = 200, .heads = 2, .kv_heads = 2, .d = 8, .d_v = 8, .offset = {0}},
     .faults = {{"queries_without_keys_beside_them_are_not_kept"},
                {"summaries_read_behind_their_end", "out of bounds"}}},
    // Of many queries few chose a key: who did is looked up, a bit for each block of 64, and one for two of 16.
    {.name = "choosers",
     .text = "pattern p { branch blocks(64, random(1, seed: 5)); }",
     .target = "emulate:sm_61",
     .dtype = ir::DType::f32,
     .shape = {.n_q = 13000, .n_k = 1920, .heads = 1, .kv_heads = 1, .d = 8, .d_v = 8},
     .faults = {{"choosers_one_bit_aside"}, {"choosers_of_further_words_lost"}, {"choosers_of_this_row_left_out"}}},
    {.name = "choosers_in_small_blocks",
     .text = "pattern p { branch blocks(16, random(1, seed: 5)) & where(q / 64 % 3 == 0); }",
     .target = "emulate:sm_80",
     .dtype = ir::DType::f16,
     .shape = {.n_q = 18000, .n_k = 640, .heads = 1, .kv_heads = 1, .d = 16, .d_v = 16},
     .faults = {{"choosers_one_bit_aside"}}},
    {.name = "matrices",
     .text = "pattern p { keep causal; keep window(90, 0); }",
     .target = "emulate:sm_80",
     .dtype = ir::DType::f16,
     .shape = {.n_q = 300, .n_k = 300, .heads = 2, .kv_heads = 1, .d = 16, .d_v = 16},
     .faults = {{"tiles_half_kept_are_not_masked_in_gradients"}}},
    {.name = "tiles_of_matrices_without_keys",
     .text =
         "pattern p { branch window(600, -100) on heads 0..1; branch where(k * k == q / 64 + 99990) on heads 1..2; }",
     .target = "emulate:sm_80",
     .dtype = ir::DType::f16,
     .shape = {.n_q = 150, .n_k = 150, .heads = 2, .kv_heads = 2, .d = 16, .d_v = 16},
     .faults = {{"rows_of_no_zone_not_waited_for", kPending}, {"rows_of_no_key_not_waited_for", kPending}}},
    {.name = "matrices_by_one_stage",
     .text = "pattern p { keep causal; }",
     .target = "emulate:sm_75",
     .dtype = ir::DType::f16,
     .shape = {.n_q = 200, .n_k = 200, .heads = 2, .kv_heads = 1, .d = 16, .d_v = 16},
     .faults = {{"rows_before_the_barrier", kRace}, {"rows_over_those_at_hand", kRace}}},
    {.name = "matrices_detached",
     .text = "pattern p { branches dilated(segments: [16, 64], rates: [1, 2]); combine joint detached; }",
     .target = "emulate:sm_80",
     .dtype = ir::DType::f16,
     .shape = {.n_q = 100, .n_k = 100, .heads = 2, .kv_heads = 2, .d = 16, .d_v = 16},
     .faults = {{"delta_of_all_branches"}}},
};
const bool kListed = listed(kBackward);

class BackwardFaults : public ::testing::TestWithParam<Backward> {};

/// What is wrong with the gradients; empty: nothing is.
std::string wrong_of(const BackwardKernel& kernel, const BackwardProblem& problem) {
  const auto found = kernel.run(problem);
  return found ? difference(problem, *found) : found.error().message;
}

TEST_P(BackwardFaults, AreFound) {
  const Backward& of = GetParam();
  constexpr std::uint64_t kSeed = 3;  // odd: dLSE, too
  const auto pattern = lowered({.text = of.text, .pattern = "p"});
  ASSERT_TRUE(pattern.ok());
  const auto tensors = draw_tensors(of.shape, of.dtype, kSeed);
  const auto inputs = draw_inputs(*pattern, of.shape, kSeed);
  const auto problem = draw_backward(*pattern, of.shape, of.dtype, tensors.q, tensors.k, tensors.v, inputs, kSeed);
  const auto kernel = BackwardKernel::make(*pattern, of.shape, of.dtype, of.target);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message << fmt::format("\n{}", fmt::join(kernel.error().notes, "\n"));
  EXPECT_EQ(wrong_of(*kernel, problem), "");
  for (const Fault& fault : of.faults) {
    const Planted planted(fault.name);
    const auto wrong = wrong_of(*kernel, problem);
    EXPECT_NE(wrong, "") << fault.name << " is not found";
    EXPECT_NE(wrong.find(fault.found), std::string::npos) << fault.name << ": " << wrong;
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, BackwardFaults, ::testing::ValuesIn(kBackward),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace weft::test
