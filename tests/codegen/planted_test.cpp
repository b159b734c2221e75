#include "tests/support/planted.h"
#include "codegen/cuda/emit.h"
#include "compiler/ir/pattern_interpreter.h"
#include "compiler/planner/planner.h"
#include "tests/codegen/emulated_runner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

/// Faults planted in the emitted kernel: what emulation is trusted for. Each changes one place of the text; the text
/// as it is passes.
namespace weft::testing {
namespace {

using ir::make_set;
using ir::SetKind;

struct Planted {
  const char* name;
  const char* from;  ///< stands in the text exactly once
  const char* to;
  const char* found;  ///< part of the fault's message; "wrong" where the numbers give it away
};

constexpr Planted kPlanted[] = {
    {"nothing", "", "", ""},
    // Barriers
    {"barrier_before_scores", "__syncthreads();\n  if (kBusy) start_scores", "if (kBusy) start_scores", "race"},
    {"barrier_behind_scores", "__syncthreads();\n    if (last) break;", "if (last) break;", "race"},
    {"barrier_before_values", "key += kStaged) {\n      __syncthreads();", "key += kStaged) {", "race"},
    {"weights_stored_too_early", "sync_rows();  // nobody reads the part", "// nobody reads the part", "race"},
    {"chunk_over_the_one_at_hand", "store_columns(s, places, half, next)",
     "store_columns(s, places, kStageHalf * 4 - half, next)", "race"},
    {"maxima_seen_too_early", "store_maxima(s, m);\n  sync_rows();\n}\n\n/// P", "store_maxima(s, m);\n}\n\n/// P",
     "race"},
    {"barrier_after_keys", "y - page * page_size);\n    }\n  }\n  __syncthreads();",
     "y - page * page_size);\n    }\n  }", "race"},
    {"barrier_of_few", "if (weight == 0) continue;\n", "if (weight == 0) continue;\n    __syncthreads();\n", "barrier"},
    // Masks
    {"mask_one_too_far", "(key.y < row.hi)", "(key.y <= row.hi)", "wrong"},
    {"mask_one_too_short", "(key.y >= row.lo)", "(key.y > row.lo)", "wrong"},
    {"full_zone_too_wide", "lo >= get(term.must_lo) && hi <= get(term.must_hi)", "true", "wrong"},
    {"counts_of_one_row_for_all", "for (int d = 0; d < kPlanes; ++d) digits[d] >>= 1;", ";", "wrong"},
    // Softmax
    {"no_rescale", "st.o[r][c] *= rescale;", ";", "wrong"},
    {"no_rescale_of_the_sum", "l[r] *= rescale;", "", "wrong"},
    {"row_sum_of_half_the_lanes",
     "for (int apart = 2; apart < 16; apart *= 2) x += ", "for (int apart = 2; apart < 8; apart *= 2) x += ", "wrong"},
    {"multiplicity_ignored", "return log2_approx((float)count);", "return count != 0 ? 0 : -infinity();", "wrong"},
    {"multiplicity_ignored_in_whole_blocks", "weight_of_key(s, number) * unit", "0 * unit", "wrong"},
    {"keys_of_two_zones_taken_to_ascend", "count, partial, mixed);", "count, partial, false);", "wrong"},
    // Indices
    {"key_beyond_the_last", "const int key = get(s.key[number]);", "const int key = get(s.key[number]) + 1;",
     "out of bounds"},
    {"row_of_another_tile", "return get(s.x[r]) - t.offset;", "return get(s.x[r]) - t.offset + 128;", "out of bounds"},
    {"column_twice", "load_packed<kQueryColumns>(rows.q + at)", "load_packed<kQueryColumns>(rows.q)", "wrong"},
    {"swizzle_forgotten", "(((r + lane_of_column()) ^ lane % 4 * 2) * 4)", "((r + lane_of_column()) * 4)", "wrong"},
    {"values_in_another_order", "s.value_row[place_of(thread)]", "s.value_row[thread]", "wrong"},
    {"misaligned", "return &s.maxima[row_of(r, thread_anew())];", "return &s.maxima[row_of(r, thread_anew()) + 1];",
     "misaligned"},
};

/// Two dilated branches in a window: full and partial blocks, multiplicities, several blocks a row.
ir::Pattern pattern() {
  ir::Pattern p;
  p.name = "planted";
  for (std::int64_t r : {1, 2}) {
    const auto phase = ir::apply(ir::Op::modulo, {ir::variable(ir::Variable::h), ir::constant(r)});
    const auto dilated = ir::make_dilated(512 * r, r, phase, false);
    const auto set =
        make_set(SetKind::intersection, std::vector<ir::SetPtr>{dilated, make_set(SetKind::window, {500, 0})});
    p.branches.push_back({.set = set, .heads = {}, .range = {}});
  }
  return p;
}

class PlantedFaults : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedFaults, AreFound) {
  const Planted& fault = GetParam();
  const ir::Pattern p = pattern();
  const Target target = find_target("sm_61").value();
  const ir::Shape shape{.batch = 1, .n_q = 700, .n_k = 700, .heads = 1, .kv_heads = 1, .d = 32, .d_v = 16};
  const auto plan = planner::plan(p, {.d = shape.d, .d_v = shape.d_v}, target);
  ASSERT_TRUE(plan.ok());
  codegen::Source source = codegen::cuda::emit(*plan, target);
  source.text = with_fault(source.text, fault.from, fault.to);
  const auto kernel = EmulatedKernel::of(*plan, source);
  ASSERT_TRUE(kernel.ok()) << kernel.error().message << (kernel.error().notes.empty() ? "" : kernel.error().notes[0]);
  auto q = normal({1, 700, 1, 32}, 1);
  for (auto& x : q.data) x *= 3;  // peaked rows, so that maxima move
  const auto k = normal({1, 700, 1, 32}, 2), v = normal({1, 700, 1, 16}, 3);
  const auto want = ir::interpret(p, shape, q, k, v, {});
  const auto bound = ir::error_bounds(p, ir::DType::f32, 700, 5, want->max_abs_score).o;
  expect_found(kernel->run(shape, q, k, v, {}), *want, bound, fault.found);
}

INSTANTIATE_TEST_SUITE_P(Text, PlantedFaults, ::testing::ValuesIn(kPlanted),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace weft::testing
