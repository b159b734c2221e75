#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/emulate_executor.h"
#include "runtime/engine/reference.h"
#include "tests/engine/problem.h"
#include "tests/faults/fault.h"

#include <gtest/gtest.h>

#include <numeric>

/// Faults planted in the prepass that chooses keys: the check of choices finds each, or the emulator does.
namespace weft::test {
namespace {

struct Lists {
  const char* name;
  const char* pattern;
  std::vector<Fault> faults;
};

void PrintTo(const Lists& lists, std::ostream* out) { *out << lists.name; }

const std::vector<Lists> kLists = {
    {.name = "best_so_far",
     .pattern = "pattern p { keep blocks(16, top(3, by: pooled)) & causal; }",
     .faults = {{"places_out_of_order", "stands behind"},
                {"unused_places_not_marked", "chose -5 of 7"},
                {"one_place_never_filled", "chose 2 of 3, not 3"},
                {"the_future_taken_in", "not 1"},
                {"scores_read_before_they_stand", "race"}}},
    {.name = "best_of_all",
     .pattern = "pattern p { keep blocks(16, top(3, by: pooled)); }",
     .faults = {{"the_worst_kept", "scores"},
                {"its_own_block_as_any_other", "its own block is not chosen"},
                {"keys_of_another_head", "scores"},
                {"lists_of_the_first_head_alone", "chose -5 of 7"},
                {"one_column_left_out", "scores"}}},
    {.name = "best_in_memory",
     .pattern = "pattern p { keep blocks(2, top(33, by: pooled)); }",
     .faults = {{"places_out_of_order", "stands behind"}, {"the_worst_kept", "scores"}}},
    {.name = "sample",
     .pattern = "pattern p { keep blocks(16, random(3, seed: 5)); }",
     .faults = {{"drawn_twice", "stands behind"},
                {"no_room_made", "chose -5 of 7"},
                {"sample_of_the_next_row", "the seed draws"},
                {"sample_of_one_head_for_all", "the seed draws"}}},
};
const bool kListed = listed(kLists);

constexpr std::int64_t kTokens = 100, kHeads = 4, kKvHeads = 2, kDim = 16;

/// What a launch with its list read back comes to: what is wrong with it; empty, nothing is.
std::string check(const Compilation& kernel) {
  const auto executor = EmulateExecutor::make(kernel, kernel.source());
  if (!executor) return executor.error().message;
  Problem problem(1, kTokens, kHeads, kDim);
  const auto& pattern = kernel.pattern;
  const auto lists =
      chosen_lists(pattern, {.batch = 1, .n_q = kTokens, .n_k = kTokens, .heads = kHeads, .kv_heads = kKvHeads});
  const auto& [entries, heads, rows, places] = lists.at(0).extent;
  std::vector<std::int32_t> list(static_cast<std::size_t>(entries * heads * rows * places), -5);
  const OutputView view = dense_output(list.data(), DType::i32, {entries, heads, rows, places});
  auto args = problem.args();
  args.k.extent[2] = args.v.extent[2] = kKvHeads;
  args.lists = {&view, 1};
  const auto launch = check_launch({.pattern = pattern}, args);
  if (!launch) return launch.error().message;
  if (const auto status = (*executor)->run(*launch, args); !status) return status.error().message;
  std::vector<std::int64_t> all(static_cast<std::size_t>(kTokens));
  std::iota(all.begin(), all.end(), 0);
  return Reference(pattern, *launch, args).wrong_choice(read_lists(pattern, *launch).at(0), all);
}

class ChosenKeys : public ::testing::TestWithParam<Lists> {};

TEST_P(ChosenKeys, FaultsAreFound) {
  const CompileOptions options{.heads = kHeads, .kv_heads = kKvHeads, .dim = kDim, .dtype = DType::f32};
  auto front = read_pattern({"input.weft", GetParam().pattern}, options);
  ASSERT_TRUE(front.ok()) << front.error().message;
  const auto planned = plan_pattern(std::move(*front), options, find_target("sm_61").value());
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  const Compilation kernel(*planned);
  EXPECT_EQ(check(kernel), "");
  for (const Fault& fault : GetParam().faults) {
    const Planted planted(fault.name);
    const auto said = check(kernel);
    EXPECT_NE(said.find(fault.found), std::string::npos) << fault.name << ": " << (said.empty() ? "not found" : said);
  }
}

INSTANTIATE_TEST_SUITE_P(Lists, ChosenKeys, ::testing::ValuesIn(kLists),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace weft::test
