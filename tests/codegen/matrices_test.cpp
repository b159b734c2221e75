#include "codegen/cuda/emit.h"
#include "compiler/ir/lower.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/planner/planner.h"
#include "dsl/parse.h"
#include "tests/codegen/emulated_runner.h"
#include "tests/support/planted.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

/// Kernels by matrix instructions on the emulator: faults planted in fragments, rows and copies are found in every
/// schedule, and the main loops leave no bank and no sector idle.
namespace weft::testing {
namespace {

using ir::make_set;
using ir::SetKind;

struct Problem {
  ir::Pattern pattern;
  ir::Shape shape;
  ir::Tensor q, k, v;
};

Problem problem(ir::Pattern pattern, std::int64_t n, std::int64_t d, std::int64_t d_v, double sharpness) {
  Problem out{.pattern = std::move(pattern),
              .shape = {.batch = 1, .n_q = n, .n_k = n, .heads = 1, .kv_heads = 1, .d = d, .d_v = d_v},
              .q = normal({1, n, 1, d}, 1),
              .k = rounded(normal({1, n, 1, d}, 2), ir::DType::f16),
              .v = rounded(normal({1, n, 1, d_v}, 3), ir::DType::f16)};
  for (auto& x : out.q.data) x *= sharpness;
  out.q = rounded(out.q, ir::DType::f16);
  return out;
}

ir::Pattern of(ir::SetPtr set) {
  ir::Pattern p;
  p.name = "matrices";
  p.branches.push_back({.set = std::move(set), .heads = {}, .range = {}});
  return p;
}

/// Two windows: full and partial blocks, which one or two branches keep, and more keys than the list is long.
ir::Pattern branches() {
  ir::Pattern p = of(make_set(SetKind::window, {600, 0}));
  p.branches.push_back({.set = make_set(SetKind::window, {300, 0}), .heads = {}, .range = {}});
  return p;
}

/// The kernel's text and the plan behind it, with a fault planted.
struct Made {
  ir::Plan plan;
  codegen::Source source;
};
Made made(const Problem& p, const char* target_name, const std::string& from = "", const std::string& to = "") {
  const Target target = find_target(target_name).value();
  auto plan = planner::plan(p.pattern, {.d = p.shape.d, .d_v = p.shape.d_v, .dtype = ir::DType::f16}, target);
  EXPECT_TRUE(plan.ok());
  EXPECT_EQ(plan->choices.kernel_class, ir::KernelClass::mma);
  Made out{std::move(*plan), {}};
  out.source = codegen::cuda::emit(out.plan, target);
  out.source.text = with_fault(out.source.text, from, to);
  return out;
}

struct Planted {
  const char* name;
  const char* from;  ///< stands in the text exactly once
  const char* to;
  const char* found;  ///< part of the fault's message; "wrong" where the numbers give it away
};

constexpr Planted kPlanted[] = {
    {"nothing", "", "", ""},
    // Copies
    {"copies_not_waited_for", "    wait_for_copies();\n  } else if", "  } else if", "wrong"},
    {"copies_waited_for_behind_the_barrier", "finish_rows(values, s.values, v_rows(s));\n        __syncthreads();",
     "__syncthreads();\n        finish_rows(values, s.values, v_rows(s));", "race"},
    {"values_before_the_barrier",
     "__syncthreads();\n        block.from = place_before(stream);\n        start_rows(s, values, s.values, v_rows(s), "
     "block.from, count_of(block),\n                   step_of(s, block.from, stream.ready + kKeys, (block.is & "
     "kMarkMixed) != 0));",
     "block.from = place_before(stream);\n        start_rows(s, values, s.values, v_rows(s), block.from, "
     "count_of(block),\n                   step_of(s, block.from, stream.ready + kKeys, (block.is & kMarkMixed) != "
     "0));\n        __syncthreads();",
     "race"},
    {"steps_read_before_the_barrier", "if (!open) __syncthreads();", "", "race"},
    {"keys_before_the_barrier", "finish_rows(values, s.values, v_rows(s));\n        __syncthreads();",
     "finish_rows(values, s.values, v_rows(s));", "race"},
    {"rows_behind_the_last_not_zero", "at, inside ? 16 : 0);", "at, 16);", ""},
    {"chunk_of_other_columns", "from + (inside ? row : 0), true) + chunk * 16",
     "from + (inside ? row : 0), true) + (chunk ^ 1) * 16", "wrong"},
    // Fragments
    {"row_of_q", "(warp * 16 + lane % 16) * kRowBytes", "(warp * 16 + (lane + 8) % 16) * kRowBytes", "wrong"},
    {"row_of_k", "(lane / 16 * 8 + lane % 8) * kRowBytes", "lane % 16 * kRowBytes", "wrong"},
    {"row_of_v", "v_rows(s) + lane % 16 * kValueBytes", "v_rows(s) + (lane / 16 * 8 + lane % 8) * kValueBytes",
     "wrong"},
    {"values_not_transposed", "load_transposed(columns,", "load_matrices(columns,", "wrong"},
    {"halves_of_b_swapped", "weights[i], columns[2], columns[3]", "weights[i], columns[3], columns[2]", "wrong"},
    {"weights_of_the_other_keys", "&block.scores[i][n + e / 2][e % 2 * 2]",
     "&block.scores[i][n + 1 - e / 2][e % 2 * 2]", "wrong"},
    {"lanes_that_do_not_agree", "const bool any = __any_sync(0xFFFFFFFFu, kept_by_any(block.kept, i) != 0)",
     "const bool any = (kept_by_any(block.kept, i) != 0)", "deadlock"},
    // Lists and masks
    {"mask_one_too_far", "(key.y < row.hi)", "(key.y <= row.hi)", "wrong"},
    {"no_counts_of_partial_blocks", "  x = sum;", "", "wrong"},
    {"no_counts_of_full_blocks", "[i % 2 * 2] *= count.x", "[i % 2 * 2] *= 1", "wrong"},
    // Softmax
    {"no_rescale", "st.o[i / 2][c][i % 2 * 2] *= by[i];", "", "wrong"},
    {"no_rescale_of_the_sum", "st.l[i] *= by[i];", "", "wrong"},
    {"row_sum_of_half_the_lanes", "st.l[i] += __shfl_xor_sync(0xFFFFFFFFu, st.l[i], 2);", "", "wrong"},
};

/// What keys of a block are apart, of patterns with keys left out, of keys from two zones, and of every other key.
constexpr const char* kGaps = "branch causal & where(k % 7 != 3);";
constexpr const char* kZones = "branch (window(299, 0) - window(149, 0)) | sink(100); keep causal;";
// A zone that ends between two of its keys, where another begins.
constexpr const char* kOdd =
    "branch where(k % 2 == 0) & sink(101); branch where(k % 2 == 1) & causal & (all - sink(101));";
// Tiles of 16 rows that keep some keys of a block; and tiles that keep all or none.
constexpr const char* kBlocks = "branch blocks(32, random(3, seed: 5)) | window(20, 0);";
constexpr const char* kWholeTiles = "branch blocks(64, window(1, 0));";
constexpr const char* kTerms = "branch window(40, 0) | (window(300, 0) - window(200, 0));";
constexpr const char* kTwoSums = "branch window(40, 0); branch window(300, 0); combine sum;";
constexpr const char* kSteps = "branch dilated(700, 2);";

struct PlantedRun {
  const char* name;
  const char* pattern;
  const char* from;
  const char* to;
};
constexpr PlantedRun kPlantedRuns[] = {
    {"nothing_in_gaps", kGaps, "", ""},
    {"nothing_in_zones", kZones, "", ""},
    {"nothing_in_steps", kSteps, "", ""},
    {"nothing_in_odd_zones", kOdd, "", ""},
    {"nothing_in_blocks", kBlocks, "", ""},
    {"nothing_in_whole_tiles", kWholeTiles, "", ""},
    {"tiles_without_a_pair_weigh", kWholeTiles, "leave_out_tiles(block);", ""},
    {"tiles_half_kept_are_not_masked", kBlocks, "__syncthreads_and(whole) == 0", "false"},
    {"rows_of_another_term", kTerms, "kKeepsMeets && get(s.met_term) == i", "kKeepsMeets && get(s.met_term) >= 0"},
    {"rows_of_the_softmax_before", kTwoSums, "put(s.met_term, -1);", ";"},
    {"keys_left_out_overlooked", kGaps, "run.keys = gaps != 0 ? 0 :", "run.keys ="},
    {"keys_left_out_by_one_warp_overlooked", kGaps, "gaps |= count & kMissed;", "gaps = count & kMissed;"},
    {"zones_that_do_not_follow", kZones, "zone.step == run.step && zone.begin == run.next", "true"},
    {"next_key_of_a_zone_that_ended", kOdd, "zone.begin < zone.end ? zone.begin : -1", "zone.begin"},
    {"fewer_keys_than_the_block", kZones, "get(s.walk.run.keys) >= listed", "get(s.walk.run.keys) > 0"},
    {"steps_overlooked", kSteps, "run.step = zone.step;", "run.step = 1;"},
    {"first_row_of_the_next", kSteps, "get(s.key[from]) + first * step", "get(s.key[from]) + (first + 1) * step"},
    {"rows_too_near", kSteps, "(unsigned)(By::kAtOnce * step)", "(unsigned)(By::kAtOnce)"},
    {"chunk_of_other_columns", kSteps, "at += chunk * 16;", "at += (chunk ^ 1) * 16;"},
};

class MatrixRuns : public ::testing::TestWithParam<PlantedRun> {};

TEST_P(MatrixRuns, AreFound) {
  const PlantedRun& fault = GetParam();
  const auto file = dsl::parse({"input.weft", std::string("pattern p { ") + fault.pattern + " }"});
  ASSERT_TRUE(file.ok());
  const auto pattern = ir::lower(*file, "p", {});
  ASSERT_TRUE(pattern.ok());
  const Problem p = problem(*pattern, 700, 32, 16, 1);
  const Made m = made(p, "sm_80", fault.from, fault.to);
  const auto kernel = EmulatedKernel::of(m.plan, m.source);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  const auto want = ir::interpret(p.pattern, p.shape, p.q, p.k, p.v, {});
  const auto bound = ir::error_bounds(p.pattern, ir::DType::f16, 700, 5, want->max_abs_score).o;
  expect_found(kernel->run(p.shape, p.q, p.k, p.v, {}, {}), *want, bound, fault.from[0] == 0 ? "" : "wrong");
}

INSTANTIATE_TEST_SUITE_P(Text, MatrixRuns, ::testing::ValuesIn(kPlantedRuns),
                         [](const auto& of) { return std::string(of.param.name); });

class MatrixFaults : public ::testing::TestWithParam<Planted> {};

TEST_P(MatrixFaults, AreFound) {
  const Planted& fault = GetParam();
  const Problem p = problem(branches(), 700, 32, 16, 8);  // peaked rows, so that their measure moves
  const Made m = made(p, "sm_80", fault.from, fault.to);
  const auto kernel = EmulatedKernel::of(m.plan, m.source);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message << (kernel.error().notes.empty() ? "" : kernel.error().notes[0]);
  const auto want = ir::interpret(p.pattern, p.shape, p.q, p.k, p.v, {});
  const auto bound = ir::error_bounds(p.pattern, ir::DType::f16, 700, 5, want->max_abs_score).o;
  const std::string found = fault.found;
  for (const auto order : {emulate::Order::ascending, emulate::Order::descending, emulate::Order::random}) {
    const bool slow = !found.empty() && order != emulate::Order::ascending;
    if (slow && std::getenv("WEFT_TEST_ALL") == nullptr) continue;
    EmulatedOptions options;
    options.order = order;
    expect_found(kernel->run(p.shape, p.q, p.k, p.v, {}, options), *want, bound, found);
  }
}

INSTANTIATE_TEST_SUITE_P(Text, MatrixFaults, ::testing::ValuesIn(kPlanted),
                         [](const auto& of) { return std::string(of.param.name); });

emulate::Report counted(const Problem& p, const Made& m) {
  const auto kernel = EmulatedKernel::of(m.plan, m.source, {.count = true});
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  emulate::Report report;
  EmulatedOptions options;
  options.layout.head_major = true;
  const auto got = kernel->run(p.shape, p.q, p.k, p.v, {}, options, &report);
  EXPECT_TRUE(got.ok()) << got.error().message;
  return report;
}

class MatrixTraffic : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Targets, MatrixTraffic, ::testing::Values("sm_75", "sm_80"),
                         [](const auto& of) { return std::string(of.param); });

/// Rows an odd number of 16-byte chunks apart: a matrix's eight rows meet all banks, and so do the copies' stores.
TEST_P(MatrixTraffic, HasNoConflictsAndFullSectors) {
  for (std::int64_t d : {64, 128}) {
    const Problem p = problem(of(make_set(SetKind::all)), 256, d, d, 1);
    const emulate::Report report = counted(p, made(p, GetParam()));
    // Lists of keys and zones are not laid out for banks.
    EXPECT_LE(report.shared().conflicts * 1000, report.shared().units)
        << "d " << d << ", line " << (report.shared_lines.empty() ? 0 : report.shared_lines[0].line);
    EXPECT_LE(report.global().units * 32, report.global().bytes * 11 / 10) << "d " << d;
  }
}

TEST_P(MatrixTraffic, SeesRowsThatMeetInABank) {
  const Problem p = problem(of(make_set(SetKind::all)), 256, 64, 64, 1);
  Made m = made(p, GetParam(), "(columns + 15) / 16 * 32 + 16", "(columns + 15) / 16 * 32");
  m.source.text = with_fault(m.source.text, "sizeof(Shared) == kSharedFixed", "sizeof(Shared) <= kSharedFixed");
  const emulate::Report report = counted(p, m);
  EXPECT_GT(report.shared().conflicts, report.shared().units / 2);
}

/// Tiles of 16 rows that keep no key of a block are not multiplied: of 16 x 64 there are, for each 128 rows, those
/// before the diagonal and 12 of 16 on it.
TEST(MatrixWork, SkipsEmptyTilesOfRows) {
  const auto flops = [](SetKind kind) {
    const Problem p = problem(of(make_set(kind)), 512, 64, 64, 1);
    return counted(p, made(p, "sm_80")).flops;
  };
  const std::int64_t of_tile = std::int64_t{2} * 2 * 16 * 64 * 64;
  std::int64_t before = 0;
  for (std::int64_t tile = 0; tile < 4; ++tile) before += 8 * 2 * tile;
  // Beside those of the products, each weight and each move of a measure counts a few.
  EXPECT_NEAR(static_cast<double>(flops(SetKind::all)), static_cast<double>(4 * 8 * 8 * of_tile),
              0.02 * 4 * 8 * 8 * static_cast<double>(of_tile));
  EXPECT_NEAR(static_cast<double>(flops(SetKind::causal)), static_cast<double>((before + 4 * 12) * of_tile),
              0.02 * static_cast<double>((before + 4 * 12) * of_tile));
}

}  // namespace
}  // namespace weft::testing
