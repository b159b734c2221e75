#include "compiler/ir/chosen_keys.h"
#include "runtime/engine/chosen_lists.h"
#include "runtime/engine/kernel_state.h"
#include "runtime/engine/reference.h"
#include "tests/engine/problem.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

/// The lists of `random` and `top` as callers get them: what the kernel used, and right by section 8 of the semantics.
namespace weft::test {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 4, kKvHeads = 2, kDim = 16, kBlock = 16;

/// Three lists in one pattern; the last by scores of the caller.
constexpr const char* kThree =
    "pattern p {\n"
    "  input scores: f32[batch, heads, blocks, blocks];\n"
    "  branch blocks(16, random(2, seed: 9) | top(3, by: pooled));\n"
    "  branch blocks(16, top(2, by: input(scores), causal: true)) & causal;\n"
    "}\n";
constexpr const char* kOne = "pattern p { keep blocks(16, top(3, by: pooled)) & causal; }\n";

struct Launched {
  std::int64_t n_q, n_k;
  std::vector<std::int64_t> offset = {};
  std::vector<float> q, k, v, scores, out, lse;
  std::vector<std::vector<std::int32_t>> lists = {};
  std::vector<OutputView> views = {};
  std::vector<NamedInput> inputs = {};

  Launched(std::int64_t queries, std::int64_t keys, bool has_scores)
      : n_q(queries),
        n_k(keys),
        q(numbers(kBatch * n_q * kHeads * kDim, 1)),
        k(numbers(kBatch * n_k * kKvHeads * kDim, 2)),
        v(numbers(kBatch * n_k * kKvHeads * kDim, 3)),
        scores(numbers(kBatch * kHeads * blocks() * blocks(), 4)),
        out(q.size()),
        lse(static_cast<std::size_t>(kBatch * kHeads * n_q)) {
    if (has_scores)
      inputs.push_back({"scores", dense_view(scores.data(), DType::f32, {kBatch, kHeads, blocks(), blocks()})});
  }

  std::int64_t blocks() const { return (n_k + kBlock - 1) / kBlock; }
  RunShape shape() const { return {.batch = kBatch, .n_q = n_q, .n_k = n_k, .heads = kHeads, .kv_heads = kKvHeads}; }

  /// Room for every list, each row followed by two places that nobody may touch.
  void make_room(const std::vector<ChosenList>& infos) {
    lists.clear();
    views.clear();
    for (const auto& info : infos) {
      const auto [entries, heads, rows, places] = info.extent;
      auto& list = lists.emplace_back(static_cast<std::size_t>(entries * heads * rows * (places + 2)), -5);
      OutputView view{.data = list.data(), .dtype = DType::i32, .rank = 4, .extent = info.extent};
      view.stride = {heads * rows * (places + 2), rows * (places + 2), places + 2, 1};
      views.push_back(view);
    }
  }

  RunArgs args() {
    return {.q = dense_view(q.data(), DType::f32, {kBatch, n_q, kHeads, kDim}),
            .k = dense_view(k.data(), DType::f32, {kBatch, n_k, kKvHeads, kDim}),
            .v = dense_view(v.data(), DType::f32, {kBatch, n_k, kKvHeads, kDim}),
            .out = dense_output(out.data(), DType::f32, {kBatch, n_q, kHeads, kDim}),
            .lse = dense_output(lse.data(), DType::f32, {kBatch, kHeads, n_q}),
            .inputs = inputs,
            .offset = offset,
            .lists = views};
  }
};

class Lists : public ::testing::TestWithParam<const char*> {
 protected:
  Kernel compile(const char* text, const std::string& target = GetParam()) {
    auto kernel = engine.compile(text, {.dim = kDim, .dtype = DType::f32, .target = target});
    EXPECT_TRUE(kernel.ok()) << (kernel.ok() ? "" : kernel.error().message);
    return std::move(*kernel);
  }

  /// One launch that asks for all lists: they are right, and what the kernel computed with.
  void expect_right(const Kernel& kernel, Launched& launched) {
    const auto infos = kernel.lists(launched.shape(), launched.offset);
    ASSERT_TRUE(infos.ok()) << infos.error().message;
    launched.make_room(*infos);
    auto args = launched.args();
    const auto status = kernel.run(args);
    ASSERT_TRUE(status.ok()) << status.error().message;
    const auto& pattern = kernel.state().pattern;
    const auto launch = check_launch(contract_of(kernel.state()), args);
    ASSERT_TRUE(launch.ok()) << launch.error().message;
    const Reference reference(pattern, *launch, args);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(launched.n_q));
    std::iota(rows.begin(), rows.end(), 0);
    const auto chosen = read_lists(pattern, *launch);
    EXPECT_EQ(chosen.size(), infos->size());
    for (const auto& keys : chosen) EXPECT_EQ(reference.wrong_choice(keys, rows), "");
    const auto expected = reference.rows(rows, &chosen);
    ASSERT_TRUE(expected.ok());
    double worst = 0;
    for (std::size_t i = 0; i < launched.out.size(); ++i)
      worst = std::max(worst, std::fabs(static_cast<double>(launched.out[i]) - expected->o.data[i]));
    EXPECT_LT(worst, 2e-5);
    for (std::size_t i = 0; i < infos->size(); ++i) {
      const auto places = static_cast<std::size_t>((*infos)[i].extent[3]);
      for (std::size_t at = 0; at < launched.lists[i].size(); ++at) {
        if (at % (places + 2) >= places)
          ASSERT_EQ(launched.lists[i][at], -5) << "between the rows";
        else
          ASSERT_NE(launched.lists[i][at], -5) << "a place that nothing wrote";
      }
    }
  }

  Engine engine{{.no_cache = true}};
};

TEST_P(Lists, AreWhatTheKernelUsed) {
  const auto kernel = compile(kThree);
  Launched square(77, 77, true);
  expect_right(kernel, square);
  Launched decode(3, 130, true);  // rows 127, 128, 129: two blocks
  expect_right(kernel, decode);
  EXPECT_EQ(decode.views[1].extent, (std::array<std::int64_t, 4>{2, 4, 2, 3}));
  Launched earlier(20, 130, true);
  earlier.offset = {17};
  expect_right(kernel, earlier);
  Launched ragged(5, 130, true);
  ragged.offset = {100, 14};
  expect_right(kernel, ragged);
}

/// More blocks than threads score at a time, and more places than a warp has lanes.
TEST_P(Lists, MayHaveManyPlaces) {
  Launched many(150, 2500, false);
  expect_right(compile("pattern p { branch blocks(16, top(40, by: pooled)); branch blocks(16, top(9, by: pooled)) & "
                       "causal; }"),
               many);
}

TEST_P(Lists, DoNotChangeTheResult) {
  const auto kernel = compile(kThree);
  Launched with(77, 77, true), without(77, 77, true), some(77, 77, true);
  with.make_room(kernel.lists(with.shape()).value());
  some.make_room(kernel.lists(some.shape()).value());
  some.views[0].data = some.views[2].data = nullptr;
  for (auto* launched : {&with, &without, &some}) {
    const auto status = kernel.run(launched->args());
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
  EXPECT_EQ(with.out, without.out);
  EXPECT_EQ(some.out, without.out);
  EXPECT_EQ(some.lists[1], with.lists[1]);
  EXPECT_EQ(some.lists[0], std::vector<std::int32_t>(some.lists[0].size(), -5)) << "was not asked for";
}

TEST_P(Lists, AreDescribed) {
  const auto kernel = compile(kThree);
  const auto lists = kernel.lists({.batch = 3, .n_q = 40, .n_k = 100, .heads = 8, .kv_heads = 2});
  ASSERT_TRUE(lists.ok());
  ASSERT_EQ(lists->size(), 3u);
  using Extent = std::array<std::int64_t, 4>;
  EXPECT_EQ((*lists)[0].set, "blocks(16, random(2, seed: 9))");
  EXPECT_EQ((*lists)[0].extent, (Extent{1, 8, 4, 2})) << "the same for every batch entry";
  EXPECT_EQ((*lists)[0].first_row, 3);  // positions 60 .. 99
  EXPECT_EQ((*lists)[0].block, 16);
  EXPECT_EQ((*lists)[1].set, "blocks(16, top(3, by: pooled, causal: false))");
  EXPECT_EQ((*lists)[1].extent, (Extent{3, 8, 4, 3}));
  EXPECT_EQ((*lists)[2].set, "blocks(16, top(2, by: input(scores), causal: true))");
  EXPECT_TRUE(compile("pattern p { keep causal; }").lists({.n_q = 5, .n_k = 5})->empty());
  const std::vector<std::int64_t> offsets = {0, 20};
  EXPECT_EQ(kernel.lists({.batch = 2, .n_q = 16, .n_k = 100, .heads = 8}, offsets)->at(1).extent, (Extent{2, 8, 3, 3}));
  const auto refused = [&](const RunShape& shape, std::span<const std::int64_t> offset) {
    const auto made = kernel.lists(shape, offset);
    EXPECT_EQ(made.ok() ? ErrorKind::internal : made.error().kind, ErrorKind::user);
    return made.ok() ? "" : made.error().message;
  };
  EXPECT_EQ(refused({.batch = 3, .n_q = 4, .n_k = 4}, offsets),
            "2 offsets are given; expected one, or one per batch entry (3)");
  EXPECT_EQ(refused({.batch = 1, .n_q = 0, .n_k = 4}, {}), "n_q is 0; it must be 1 to 2147483647");
}

TEST_P(Lists, ThatDoNotFitAreRefused) {
  const auto kernel = compile(kOne);
  Launched launched(40, 40, false);
  launched.make_room(kernel.lists(launched.shape()).value());
  const OutputView good = launched.views[0];
  const auto refused = [&](const std::function<void(OutputView&)>& spoil) {
    launched.views[0] = good;
    spoil(launched.views[0]);
    const auto status = kernel.run(launched.args());
    EXPECT_EQ(status.ok() ? ErrorKind::internal : status.error().kind, ErrorKind::user);
    return status.ok() ? "" : status.error().message;
  };
  const std::string name = "list 0, blocks(16, top(3, by: pooled, causal: true))";
  EXPECT_EQ(refused([](auto& v) { v.dtype = DType::f32; }), name + " is f32; expected i32");
  EXPECT_EQ(refused([](auto& v) { v.rank = 3; }), name + " has 3 dimensions; expected 4");
  EXPECT_EQ(refused([](auto& v) { v.extent[2] = 4; }),
            name + ", dimension 2 (rows): the extent is 4; expected 3, as Kernel::lists says");
  EXPECT_EQ(refused([](auto& v) { v.stride[3] = 2; }),
            name + ", dimension 3 (places): the stride is 2; the last dimension must be contiguous (1)");
  EXPECT_EQ(refused([](auto& v) { v.stride[1] = 0; }),
            name + ", dimension 1 (heads): the stride is 0; an output cannot overlap itself");
  launched.views = {good, good};
  EXPECT_EQ(kernel.run(launched.args()).error().message, "2 lists are given; the pattern has 1 (Kernel::lists)");
  launched.views = {good};
  EXPECT_TRUE(kernel.run(launched.args()).ok());
}

INSTANTIATE_TEST_SUITE_P(Targets, Lists, ::testing::Values("cpu", "emulate:sm_61", "interpreter"), [](const auto& of) {
  std::string name = of.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

/// Each sequence has rows, and so lists, of its own.
TEST(ListsOfSequences, AreRefused) {
  const Engine engine({.no_cache = true});
  const auto kernel = engine.compile(kOne, {.dim = kDim, .dtype = DType::f32});
  ASSERT_TRUE(kernel.ok());
  Launched launched(40, 40, false);
  launched.make_room(kernel->lists(launched.shape()).value());
  auto args = launched.args();
  args.q.extent[0] = args.k.extent[0] = args.v.extent[0] = args.out.extent[0] = args.lse.extent[0] = 1;
  const std::vector<std::int64_t> cu = {0, 25, 40};
  args.cu_q = args.cu_k = cu;
  const auto status = kernel->run(args);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message,
            "lists cannot be had of packed sequences and pages: each sequence has lists of its own");
  args.lists = {};
  EXPECT_TRUE(kernel->run(args).ok());
}

}  // namespace
}  // namespace weft::test
