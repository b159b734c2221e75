#include "compiler/ir/key_chunks.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/key_cut.h"
#include "tests/programs/launches.h"
#include "tests/support/effort.h"
#include "tests/support/near.h"
#include "tests/support/random_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

/// Chunks of a row's keys that are computed one by one, elsewhere or later, are the row; and its bits tell where chunks
/// begin, but not which were computed together, nor with which other rows.
namespace weft::test {
namespace {

/// Room for states, of which nothing is known before they are written.
std::vector<float> states(const Kernel& kernel, const RunArgs& args, std::int64_t slots) {
  const auto rows = args.q.extent[0] * args.q.extent[1] * args.q.extent[2];
  return std::vector<float>(static_cast<std::size_t>(rows * slots * floats_of_state(kernel.state().plan)),
                            std::numeric_limits<float>::quiet_NaN());
}

using Step = KeyCut::Step;

/// All chunks, and then what they are together.
Status at_once(const Kernel& kernel, const RunArgs& args, std::int64_t keys) {
  const std::int64_t chunks = (args.k.extent[1] + keys - 1) / keys;
  auto room = states(kernel, args, chunks);
  KeyCut cut{.states = room.data(), .slots = chunks, .count = chunks, .keys = keys};
  WEFT_CHECK(run_cut(kernel, args, cut));
  cut.step = Step::finish;
  return run_cut(kernel, args, cut);
}

/// K or V of which rows [first, first + count) alone are there, and begin it.
std::vector<std::byte> part_of(TensorView& view, std::int64_t first, std::int64_t count) {
  const auto bytes = view.extent[0] * view.extent[1] * view.stride[1] * static_cast<std::int64_t>(size_of(view.dtype));
  std::vector<std::byte> out(static_cast<std::size_t>(bytes), std::byte{0xff});  // no numbers
  const auto row = static_cast<std::size_t>(view.stride[1]) * size_of(view.dtype);
  for (std::int64_t b = 0; b < view.extent[0]; ++b) {
    const auto entry = static_cast<std::size_t>(b * view.extent[1]) * row;
    std::memcpy(out.data() + entry,
                static_cast<const std::byte*>(view.data) + entry + static_cast<std::size_t>(first) * row,
                static_cast<std::size_t>(count) * row);
  }
  view.data = out.data();
  return out;
}

/// One chunk after the other, of which nothing is kept but what they are together.
Status one_by_one(const Kernel& kernel, const RunArgs& args, std::int64_t keys) {
  auto room = states(kernel, args, 2);
  for (std::int64_t first = 0; first < args.k.extent[1]; first += keys) {
    RunArgs some = args;
    const auto count = std::min(keys, args.k.extent[1] - first);
    const auto k = part_of(some.k, first, count), v = part_of(some.v, first, count);
    KeyCut cut{
        .states = room.data(), .slots = 2, .slot = first > 0 ? 1 : 0, .first = first, .keys = keys, .held = first};
    WEFT_CHECK(run_cut(kernel, some, cut));
    if (first == 0) continue;
    cut = {.step = Step::fold, .states = room.data(), .slots = 2, .count = 2};
    WEFT_CHECK(run_cut(kernel, args, cut));
  }
  return run_cut(kernel, args, {.step = Step::finish, .states = room.data(), .slots = 2});
}

struct Way {
  const char* target;
  int programs;
  std::int64_t most_tokens;
  ir::DType dtype = ir::DType::f32;
  double bound = 1e-4;
};

/// Was anything compared?
bool compare(const Program& program, const Way& way, std::uint64_t random) {
  Launches launches(program, way.target);
  if (!launches.ok() || !ir::check_key_cuts(launches.kernel().state().plan).ok()) return false;
  const auto n_q = program.shape.n_q;
  const auto whole = launches.run(0, n_q);
  if (!whole) return false;
  const std::int64_t keys = 16 + static_cast<std::int64_t>(random % 48);
  const auto with = [&](auto how) {
    return [how, keys](const Kernel& kernel, const RunArgs& args) { return how(kernel, args, keys); };
  };
  const auto text = fmt::format("{}, chunks of {} keys\n{}", way.target, keys, to_file(program));
  const auto cut = launches.run(0, n_q, true, {}, with(at_once));
  EXPECT_TRUE(cut.ok()) << (cut.ok() ? "" : cut.error().message) << text;
  if (!cut) return false;
  EXPECT_LT(apart(numbers_of(whole->out, launches.dtype()), numbers_of(cut->out, launches.dtype())), way.bound) << text;
  EXPECT_LT(apart(whole->lse, cut->lse), 1e-4) << text;
  EXPECT_LT(apart(whole->branch_lse, cut->branch_lse), 1e-4) << text;
  const std::int64_t begin = static_cast<std::int64_t>(random / 64) % n_q;
  const auto slice = launches.run(begin, n_q, true, {}, with(one_by_one));
  if (!slice && slice.error().message.find("a slice of the rows has not all of them") != std::string::npos) return true;
  EXPECT_EQ(slice ? launches.difference(*cut, *slice, begin, n_q) : slice.error().message, "") << text;
  return true;
}

class RandomCuts : public ::testing::TestWithParam<Way> {};

TEST_P(RandomCuts, AreTheWhole) {
  const Way& way = GetParam();
  int compared = 0;
  const int programs = programs_on(way.target, way.programs, 2);
  for (int i = 0; i < programs; ++i) {
    const auto seed = 9'200'000 + static_cast<std::uint64_t>(i);
    Program program = random_program(seed, {.most_tokens = way.most_tokens, .most_heads = 3, .nesting = 2});
    program.dtype = way.dtype;
    compared += compare(program, way, seed * 2'654'435'761U >> 7) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, programs / 3);
}

INSTANTIATE_TEST_SUITE_P(, RandomCuts,
                         ::testing::Values(Way{"cpu", 40, 200}, Way{"cpu:x86-64", 15, 200},
                                           Way{"emulate:sm_61", effort(5, 8), 150},
                                           Way{"emulate:sm_80", effort(5, 8), 150, ir::DType::f16, 4e-3}),
                         [](const auto& row) { return fmt::format("way_{}", row.index); });

}  // namespace
}  // namespace weft::test
