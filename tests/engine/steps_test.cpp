/// A launch as kernels one after another, whatever runs them.

#include "runtime/engine/steps.h"

#include "codegen/divisor.h"
#include "runtime/engine/compilation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace weft::test {
namespace {

constexpr const char* kCausal = "pattern p { keep causal; }";
constexpr const char* kTop = "pattern p { keep blocks(16, top(3, by: pooled)) & causal; }";
constexpr const char* kPhases = "pattern p { branches dilated(segments: [512, 4096], rates: [8, 7]); keep causal; }";

/// What a machine that computes nothing is told.
struct Recorded {
  std::vector<std::string> steps;
  std::vector<std::int64_t> grids;  ///< of each, in blocks of threads or units of work
  std::vector<weft_args> blocks;
  std::vector<std::int64_t> copied;
  RoomSizes room;
};

Recorded recorded(const char* text, const char* target, const Launch& launch, bool together = false) {
  const CompileOptions options{.dim = 64, .dtype = DType::f32};
  auto front = read_pattern({.name = "p", .text = text}, options).value();
  const Compilation kernel(plan_pattern(std::move(front), options, find_target(target).value()).value());
  const auto tables = kernel.tables(launch.shape.heads).value();
  Recorded out{
      .steps = {}, .grids = {}, .blocks = {}, .copied = {}, .room = room_for(kernel.plan, launch, together).value()};
  std::vector<std::int64_t> entries(5 * static_cast<std::size_t>(launch.shape.batch));
  std::vector<std::byte> carry(out.room.carry);
  std::vector<std::int32_t> lists(out.room.lists / sizeof(std::int32_t));
  RunArgs args;
  if (launch.shape.offset.size() > 1) args.offset = launch.shape.offset;
  const auto run = [&](const Turn& turn) -> Status {
    out.steps.push_back(fmt::format("{} {}", ir::to_string(turn.step), turn.step.number));
    out.grids.push_back(turn.blocks);
    out.blocks.push_back(*turn.args);
    return done;
  };
  const auto copy = [&](std::int64_t* to, const std::int64_t* from, std::size_t bytes) -> Status {
    EXPECT_GE(to, entries.data());
    EXPECT_LE(to + bytes / sizeof *to, entries.data() + entries.size());
    std::memcpy(to, from, bytes);
    out.copied.insert(out.copied.end(), from, from + bytes / sizeof *to);
    return done;
  };
  const Room room{.tables = tables->tables.words.data(),
                  .offsets = entries.data(),
                  .chunks = entries.data() + launch.shape.batch,
                  .entries = entries.data() + 3 * launch.shape.batch,
                  .carry = carry.data(),
                  .lists = lists.data()};
  const Job job{.kernel = kernel, .tables = *tables, .launch = launch, .args = args, .together = together};
  const auto status = run_steps(job, room, {.run = run, .copy = copy});
  EXPECT_TRUE(status.ok()) << status.error().message;
  return out;
}

Launch launch_of(std::int64_t n_q, std::int64_t n_k, std::int64_t heads = 2, std::int64_t batch = 1) {
  Launch out;
  out.shape = {.batch = batch, .n_q = n_q, .n_k = n_k, .heads = heads, .kv_heads = heads};
  return out;
}

using Names = std::vector<std::string>;

TEST(Steps, AreListsThenPhases) {
  EXPECT_EQ(recorded(kTop, "sm_61", launch_of(96, 96)).steps, (Names{"pool 0", "fill 0", "attend 0"}));
  EXPECT_EQ(recorded(kPhases, "sm_61", launch_of(96, 96)).steps, (Names{"attend 0", "attend 1"}));
  EXPECT_EQ(recorded(kPhases, "cpu:x86-64-v3", launch_of(96, 96)).steps, (Names{"attend 0", "attend 1"}));
}

using Grids = std::vector<std::int64_t>;

TEST(Steps, HaveTheGridsOfThePlan) {
  // 96 rows: one tile of 128 a head; 6 blocks of 16 keys, and as many rows of blocks, of which 8 choose together.
  EXPECT_EQ(recorded(kTop, "sm_61", launch_of(96, 96)).grids, (Grids{12, 2, 2}));
  // Four warps of a block merge a row each.
  const auto merged = recorded(kCausal, "sm_61", launch_of(9, 65536, 3));
  ASSERT_EQ(merged.grids.size(), 2U);
  EXPECT_EQ(merged.grids[0], 3 * merged.blocks[0].chunks);
  EXPECT_EQ(merged.grids[1], (3 * 9 + 3) / 4);
}

TEST(Steps, MergeChunksOfKeys) {
  EXPECT_EQ(recorded(kCausal, "sm_61", launch_of(1, 65536)).steps, (Names{"attend 0", "merge 0"}));
  EXPECT_EQ(recorded(kCausal, "cpu:x86-64-v3", launch_of(1, 65536)).steps, (Names{"attend 0"}));
}

/// Where the room for chunks is less than all heads want: each head has its turn, once.
TEST(Steps, OfHeadsThatTakeTurns) {
  constexpr std::int64_t kHeads = 4096;
  const auto all = recorded(kCausal, "sm_61", launch_of(8, 65536, kHeads));
  ASSERT_GT(all.steps.size(), 2U);
  std::int64_t tiles = 0, rows = 0;
  for (std::size_t i = 0; i < all.steps.size(); ++i) {
    EXPECT_EQ(all.steps[i], i % 2 == 0 ? "attend 0" : "merge 0");
    auto& next = i % 2 == 0 ? tiles : rows;
    EXPECT_EQ(all.blocks[i].tile_begin, next);
    next = all.blocks[i].tile_end;
    // Head number `first` of the batch begins where the room does.
    const auto first = all.blocks[i / 2 * 2].tile_begin / all.blocks[i].tiles_per_head;
    const auto state = all.blocks[i].chunks * 8 * (64 + 2) * std::int64_t{sizeof(float)};
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all.blocks[i].carry) + static_cast<std::uintptr_t>(first * state),
              reinterpret_cast<std::uintptr_t>(all.blocks[0].carry));
  }
  EXPECT_EQ(tiles, kHeads * all.blocks[0].tiles_per_head);
  EXPECT_EQ(rows, kHeads * 8);
  EXPECT_LE(all.room.carry, std::size_t{32} << 20);
}

TEST(Steps, HaveWhatDiffersFromEntryToEntryAtHand) {
  Launch launch = launch_of(1, 65536, 2, 3);
  launch.shape.offset = {70000, 65535, 100};
  const auto all = recorded(kCausal, "sm_61", launch);
  ASSERT_EQ(all.copied.size(), 9U) << "offsets, then two numbers of chunks each";
  EXPECT_TRUE(std::equal(launch.shape.offset.begin(), launch.shape.offset.end(), all.copied.begin()));
  for (const auto& block : all.blocks) EXPECT_EQ(block.chunks_of_entry, block.offsets + 3);
  EXPECT_TRUE(recorded(kCausal, "sm_61", launch_of(1, 65536, 2, 3)).copied.empty());
}

TEST(Steps, GoSequenceBySequence) {
  Launch launch = launch_of(40, 40, 2, 3);
  launch.packed_q = launch.packed_k = true;
  launch.sequences = {{.b = 0, .n_q = 40, .n_k = 40},
                      {.b = 1, .n_q = 0, .n_k = 8, .first_q = 40, .first_k = 40},
                      {.b = 2, .n_q = 8, .n_k = 8, .first_q = 40, .first_k = 48}};
  const auto all = recorded(kPhases, "sm_61", launch);
  EXPECT_EQ(all.steps, (Names{"attend 0", "attend 1", "attend 0", "attend 1"})) << "one sequence has no rows";
  EXPECT_EQ(all.blocks[1].n_q, 40);
  EXPECT_EQ(all.blocks[3].n_q, 8);
}

Launch packed(const std::vector<std::pair<std::int64_t, std::int64_t>>& lengths) {
  Launch out = launch_of(0, 0, 2, std::ssize(lengths));
  out.packed_q = out.packed_k = true;
  std::int64_t q = 0, k = 0;
  for (const auto& [n_q, n_k] : lengths) {
    out.sequences.push_back({.b = std::ssize(out.sequences), .n_q = n_q, .n_k = n_k, .first_q = q, .first_k = k});
    out.shape.n_q = std::max(out.shape.n_q, n_q);
    out.shape.n_k = std::max(out.shape.n_k, n_k);
    q += n_q, k += n_k;
  }
  return out;
}

TEST(Steps, OfSequencesAreTakenTogether) {
  const auto all = recorded(kPhases, "sm_61", packed({{40, 40}, {0, 8}, {300, 300}}), true);
  EXPECT_EQ(all.steps, (Names{"attend 0", "attend 1"}));
  EXPECT_EQ(all.blocks[0].n_q, 300);
  // Sizes and places of each, two to a word; then positions.
  const auto two = [](std::int64_t low, std::int64_t high) { return low | high << 32; };
  EXPECT_EQ(all.copied,
            (std::vector<std::int64_t>{two(40, 40), 0, two(0, 8), two(40, 40), two(300, 300), two(40, 48), 0, 8, 0}));
  EXPECT_NE(all.blocks[0].entries, nullptr);
}

TEST(Steps, WhatIsKnownOfQueriesTakesRoomForTheTokensOfSequences) {
  const CompileOptions options{.dim = 64, .dtype = DType::f32, .gradient = true};
  auto front = read_pattern({.name = "p", .text = kCausal}, options).value();
  const auto plan = plan_pattern(std::move(front), options, find_target("sm_61").value()).value();
  std::vector<std::pair<std::int64_t, std::int64_t>> lengths(100, {10, 10});
  lengths.emplace_back(4000, 4000);
  auto launch = packed(lengths);
  launch.packed_rows = 5000;
  const std::size_t of_heads = 4 * ((2 * lengths.size() + 3) / 4 * 4);  // the largest dO of each entry and head
  EXPECT_EQ(room_for(plan.plan, launch, true).value().terms, 2 * 5000 * 2 * sizeof(float) + of_heads);
}

TEST(Steps, OfSequencesAreApartWhereTheyShareNoLaunch) {
  // Whose keys are cut, and whose are not.
  EXPECT_EQ(recorded(kCausal, "sm_61", packed({{1, 65536}, {3, 40000}, {500, 500}}), true).steps,
            (Names{"attend 0", "merge 0", "attend 0"}));
  // Of 128 short ones and a long one, most tiles of a common launch would have no rows.
  std::vector<std::pair<std::int64_t, std::int64_t>> lengths(128, {100, 100});
  lengths.emplace_back(100'000, 100'000);
  EXPECT_EQ(recorded(kCausal, "sm_61", packed(lengths), true).steps.size(), 2U);
  // Lists belong to one sequence.
  EXPECT_EQ(recorded(kTop, "sm_61", packed({{96, 96}, {96, 96}}), true).steps.size(), 6U);
}

/// As kernels divide: codegen/cuda/device/numbers.cuh.
TEST(Divisors, AreThoseOfIntegers) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  std::mt19937 random(7);
  std::vector<std::int64_t> divisors = {1, 3, 5, 7, 12, 48, 96, kMost - 1, kMost};
  for (std::int64_t power = 2; power < kMost; power *= 2)
    divisors.insert(divisors.end(), {power - 1, power, power + 1});
  for (int i = 0; i < 200; ++i) divisors.push_back(1 + static_cast<std::int64_t>(random()) % (kMost >> random() % 31));
  for (const auto by : divisors) {
    const auto d = codegen::divisor_of(by);
    std::vector<std::int64_t> numbers = {0, 1, by - 1, by, by + 1, kMost - 1, kMost / by * by - 1, kMost / by * by};
    for (int i = 0; i < 200; ++i) numbers.push_back(static_cast<std::int64_t>(random()) % kMost);
    for (const auto n : numbers) {
      if (n < 0 || n >= kMost) continue;
      const auto high = static_cast<std::uint64_t>(static_cast<std::uint32_t>(2 * n)) * d.factor >> 32;
      ASSERT_EQ(static_cast<std::int64_t>(high >> d.shift), n / by) << n << " / " << by;
    }
  }
  EXPECT_EQ(codegen::divisor_of(0).by, 1);
}

}  // namespace
}  // namespace weft::test
