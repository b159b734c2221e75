#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/emulate_executor.h"
#include "runtime/engine/reference.h"
#include "tests/engine/problem.h"
#include "tests/support/planted.h"

#include <gtest/gtest.h>

#include <numeric>

/// Faults planted in the prepass that chooses keys: the check of choices finds each, or the emulator does.
namespace weft::test {
namespace {

constexpr const char* kBest = "pattern p { keep blocks(16, top(3, by: pooled)) & causal; }";
constexpr const char* kBestOfAll = "pattern p { keep blocks(16, top(3, by: pooled)); }";
constexpr const char* kSample = "pattern p { keep blocks(16, random(3, seed: 5)); }";

struct Planted {
  const char* name;
  const char* pattern;
  const char* from;  ///< stands in the text exactly once
  const char* to;
  const char* found;  ///< part of what the check, or the emulator, says
};

constexpr Planted kPlanted[] = {
    {"nothing_in_the_best_so_far", kBest, "", "", ""},
    {"nothing_in_the_best_of_all", kBestOfAll, "", "", ""},
    {"nothing_in_a_sample", kSample, "", "", ""},
    // Form
    {"places_out_of_order", kBest, "while (at > 0 && place(r, at - 1) > block) {", "while (false) {", "stands behind"},
    {"unused_places_not_marked", kBest, "for (int i = filled; i < r.count; ++i) set_place(r, i, kLargest);", "",
     "chose -5 of 7"},
    {"one_place_never_filled", kBest, "if (filled < r.count) ++filled;", "if (filled < r.count - 1) ++filled;",
     "chose 2 of 3, not 3"},
    {"the_future_taken_in", kBest, "min(max(r.row + 1, 0), r.blocks)", "min(max(r.row + 2, 0), r.blocks)", "not 1"},
    {"drawn_twice", kSample, "const bool taken = at < filled && place(r, at) == t;", "const bool taken = false;",
     "stands behind"},
    {"no_room_made", kSample, "make_room(r, at, filled);", "", "chose -5 of 7"},
    // Choice
    {"the_worst_kept", kBestOfAll, "!(score > load_written<float>(r.best + filled - 1))",
     "!(score < load_written<float>(r.best + filled - 1))", "scores"},
    {"its_own_block_as_any_other", kBestOfAll, "const bool own = block == r.row;", "const bool own = false;",
     "its own block is not chosen"},
    {"keys_of_another_head", kBestOfAll, "const int kv_head = r.h / ((int)a.heads / (int)a.kv_heads);",
     "const int kv_head = r.h % (int)a.kv_heads;", "scores"},
    {"lists_of_the_first_head_alone", kBestOfAll, "r.row = (int)a.tile_begin + (number - head * rows);",
     "r.row = (int)a.tile_begin + (number - head * rows); r.h = 0;", "chose -5 of 7"},
    {"one_column_left_out", kBestOfAll, "for (int c = 0; c < kDim; ++c) sum += load_shared",
     "for (int c = 8; c < kDim; ++c) sum += load_shared", "scores"},
    {"sample_of_the_next_row", kSample, "(unsigned)r.row, (unsigned)r.h, 0)",
     "(unsigned)(r.row + 1), (unsigned)r.h, 0)", "the seed draws"},
    {"sample_of_one_head_for_all", kSample, "(unsigned)r.row, (unsigned)r.h, 0)", "(unsigned)r.row, 0, 0)",
     "the seed draws"},
    // Threads
    {"scores_read_before_they_stand", kBest, "score == score ? score : -infinity());\n    __syncthreads();",
     "score == score ? score : -infinity());", "race"},
};

constexpr std::int64_t kTokens = 100, kHeads = 4, kKvHeads = 2, kDim = 16;

/// What a launch with its list read back comes to: what is wrong with it; empty, nothing is.
std::string check(const Planted& fault, const Compilation& kernel) {
  auto source = kernel.source();
  source.text = testing::with_fault(source.text, fault.from, fault.to);
  const auto executor = EmulateExecutor::make(kernel, source);
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

class PlantedLists : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedLists, AreFound) {
  const Planted& fault = GetParam();
  const CompileOptions options{.heads = kHeads, .kv_heads = kKvHeads, .dim = kDim, .dtype = DType::f32};
  auto front = read_pattern({"input.weft", fault.pattern}, options);
  ASSERT_TRUE(front.ok()) << front.error().message;
  const auto planned = plan_pattern(std::move(*front), options, find_target("sm_61").value());
  ASSERT_TRUE(planned.ok()) << planned.error().message;
  const auto said = check(fault, Compilation(*planned));
  if (*fault.from == '\0') {
    EXPECT_EQ(said, "");
  } else {
    EXPECT_NE(said, "") << "nothing was found";
    EXPECT_NE(said.find(fault.found), std::string::npos) << said;
  }
}

INSTANTIATE_TEST_SUITE_P(Text, PlantedLists, ::testing::ValuesIn(kPlanted),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace weft::test
