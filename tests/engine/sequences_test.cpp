#include "tests/device/gpu_packed.h"
#include "tests/engine/problem.h"
#include "tests/support/pages.h"

#include <gtest/gtest.h>

#include <algorithm>

/// Sequences of different lengths in one launch, packed behind one another or with their keys in pages: each must have
/// the bits of a launch of its own.
namespace weft::test {
namespace {

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kDim = 16;
const std::vector<std::int64_t> kQueries = {3, 1, 70, 0, 33}, kKeys = {40, 129, 70, 12, 65};

std::vector<std::int64_t> cumulative(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> out = {0};
  for (auto n : lengths) out.push_back(out.back() + n);
  return out;
}

/// As kernels read them: SizesAt.
std::vector<std::int32_t> as_ints(const std::vector<std::int64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

struct Results {
  std::vector<float> out, lse;  ///< [total, H, d], [H, total]
  explicit Results(std::int64_t rows)
      : out(static_cast<std::size_t>(rows * kHeads * kDim), -7), lse(static_cast<std::size_t>(rows * kHeads), -7) {}
  OutputView o(std::int64_t first, std::int64_t rows) {
    return dense_output(out.data() + first * kHeads * kDim, DType::f32, {1, rows, kHeads, kDim});
  }
  OutputView l(std::int64_t first, std::int64_t rows, std::int64_t total) {
    OutputView view = dense_output(lse.data() + first, DType::f32, {1, kHeads, rows});
    view.stride = {kHeads * total, total, 1, 0};
    return view;
  }
};

class Sequences : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override {
    q = numbers(rows * kHeads * kDim, 1);
    k = numbers(keys * kKvHeads * kDim, 2);
    v = numbers(keys * kKvHeads * kDim, 3);
  }

  Kernel compile(bool paged) {
    auto kernel = engine.compile(std::get<0>(GetParam()),
                                 {.dim = kDim, .dtype = DType::f32, .paged = paged, .target = std::get<1>(GetParam())});
    EXPECT_TRUE(kernel.ok()) << (kernel.ok() ? "" : kernel.error().message);
    return std::move(*kernel);
  }

  TensorView packed(const std::vector<float>& x, std::int64_t first, std::int64_t n, std::int64_t heads) const {
    return dense_view(x.data() + first * heads * kDim, DType::f32, {1, n, heads, kDim});
  }

  /// One launch for each sequence.
  Results apart() {
    const Kernel kernel = compile(false);
    Results results(rows);
    for (std::size_t b = 0; b < kQueries.size(); ++b) {
      if (kQueries[b] == 0) continue;
      const auto status = kernel.run({.q = packed(q, cu_q[b], kQueries[b], kHeads),
                                      .k = packed(k, cu_k[b], kKeys[b], kKvHeads),
                                      .v = packed(v, cu_k[b], kKeys[b], kKvHeads),
                                      .out = results.o(cu_q[b], kQueries[b]),
                                      .lse = results.l(cu_q[b], kQueries[b], rows)});
      EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    }
    return results;
  }

  struct InPages : Pages {
    std::vector<float> k_pages, v_pages;
    explicit InPages(const Sequences& of) : Pages(kKeys, 16) {
      k_pages = fill(of.k.data(), kKvHeads * kDim, of.cu_k);
      v_pages = fill(of.v.data(), kKvHeads * kDim, of.cu_k);
    }
    TensorView k() const { return view(k_pages.data(), like()); }
    TensorView v() const { return view(v_pages.data(), like()); }

   private:
    static TensorView like() { return dense_view(nullptr, DType::f32, {1, 1, kKvHeads, kDim}); }
  };

  Engine engine{{.no_cache = true}};
  const std::vector<std::int64_t> cu_q = cumulative(kQueries), cu_k = cumulative(kKeys);
  const std::int64_t rows = cu_q.back(), keys = cu_k.back();
  std::vector<float> q, k, v;
};

TEST_P(Sequences, PackedAreAsIfAlone) {
  Results want = apart(), got(rows);
  const auto status = compile(false).run({.q = packed(q, 0, rows, kHeads),
                                          .k = packed(k, 0, keys, kKvHeads),
                                          .v = packed(v, 0, keys, kKvHeads),
                                          .out = got.o(0, rows),
                                          .lse = got.l(0, rows, rows),
                                          .cu_q = cu_q,
                                          .cu_k = cu_k});
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(got.out, want.out);
  EXPECT_EQ(got.lse, want.lse);
}

TEST_P(Sequences, InPagesAreAsIfAlone) {
  const InPages in(*this);
  Results want = apart(), got(rows);
  const auto status = compile(true).run({.q = packed(q, 0, rows, kHeads),
                                         .k = in.k(),
                                         .v = in.v(),
                                         .out = got.o(0, rows),
                                         .lse = got.l(0, rows, rows),
                                         .cu_q = cu_q,
                                         .pages = in.pages(),
                                         .kv_lengths = kKeys});
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(got.out, want.out);
  EXPECT_EQ(got.lse, want.lse);
}

/// A slice of each sequence's rows, as a prefill in parts computes it.
TEST_P(Sequences, SlicesInPagesHaveTheBitsOfTheWhole) {
  const InPages in(*this);
  const Kernel kernel = compile(true);
  const auto batch = static_cast<std::int64_t>(kKeys.size());
  constexpr std::int64_t kWhole = 40, kFirst = 7, kRows = 21, kRow = kHeads * kDim;
  const auto all = numbers(batch * kWhole * kRow, 4);
  const auto run = [&](std::int64_t first, std::int64_t n, RowSlice slice) {
    std::vector<float> out(static_cast<std::size_t>(batch * n * kRow), -7);
    RunArgs args{.q = dense_view(all.data() + first * kRow, DType::f32, {batch, n, kHeads, kDim}),
                 .k = in.k(),
                 .v = in.v(),
                 .out = dense_output(out.data(), DType::f32, {batch, n, kHeads, kDim}),
                 .slice = slice,
                 .pages = in.pages(),
                 .kv_lengths = kKeys};
    args.q.stride[0] = kWhole * kRow;
    const auto status = kernel.run(args);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    return out;
  };
  const auto whole = run(0, kWhole, {}), slice = run(kFirst, kRows, {.first = kFirst, .of = kWhole});
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto of_whole = whole.begin() + (b * kWhole + kFirst) * kRow, of_slice = slice.begin() + b * kRows * kRow;
    EXPECT_TRUE(std::equal(of_slice, of_slice + kRows * kRow, of_whole)) << "sequence " << b;
  }
}

/// Sizes that kernels read when they run; on the CPU whoever launches does.
TEST_P(Sequences, SizesMayStandInMemory) {
  const auto at_q = as_ints(cu_q), at_k = as_ints(cu_k), lengths = as_ints(kKeys);
  const auto batch = static_cast<std::int64_t>(kKeys.size());
  const InPages in(*this);
  const Results want = apart();
  for (const bool paged : {false, true}) {
    SCOPED_TRACE(paged ? "in pages" : "packed");
    // More room than the sequences need, as a graph has that is captured before they are known.
    Results got(rows);
    RunArgs args{.q = packed(q, 0, rows, kHeads),
                 .k = paged ? in.k() : packed(k, 0, keys, kKvHeads),
                 .v = paged ? in.v() : packed(v, 0, keys, kKvHeads),
                 .out = got.o(0, rows),
                 .lse = got.l(0, rows, rows),
                 .sizes_at = {.sequences = batch, .most_q = 100, .most_k = in.most * in.size, .cu_q = at_q.data()}};
    if (paged) {
      args.pages = in.pages();
      args.sizes_at.kv_lengths = lengths.data();
    } else {
      args.sizes_at.cu_k = at_k.data();
    }
    const auto status = compile(paged).run(args);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(got.out, want.out);
    EXPECT_EQ(got.lse, want.lse);
  }
}

/// A cache that all sequences have room in, and rows where each of them has come to.
TEST_P(Sequences, PositionsMayStandInMemory) {
  constexpr std::int64_t kBatch = 3, kRows = 2, kRoom = 100;
  const std::vector<std::int64_t> offset = {40, 0, 98};
  const auto of_cache = numbers(kBatch * kRoom * kKvHeads * kDim, 5),
             of_rows = numbers(kBatch * kRows * kHeads * kDim, 6);
  const auto run = [&](bool in_memory) {
    std::vector<float> out(of_rows.size(), -7);
    const TensorView cache = dense_view(of_cache.data(), DType::f32, {kBatch, kRoom, kKvHeads, kDim});
    RunArgs args{.q = dense_view(of_rows.data(), DType::f32, {kBatch, kRows, kHeads, kDim}),
                 .k = cache,
                 .v = cache,
                 .out = dense_output(out.data(), DType::f32, {kBatch, kRows, kHeads, kDim})};
    if (in_memory)
      args.sizes_at = {.sequences = kBatch, .offset = offset.data()};
    else
      args.offset = offset;
    const auto status = compile(false).run(args);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    return out;
  };
  EXPECT_EQ(run(true), run(false));
}

/// Nobody looks at sizes in the memory of a GPU before kernels do: whatever stands there, they stay in the tensors.
TEST_P(Sequences, WrongSizesInMemoryTouchNothingElse) {
  const bool is_gpu = std::string(std::get<1>(GetParam())) != "cpu";
  constexpr std::int32_t kFar = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::int32_t> wrong = {-5, kFar, 20, -kFar, 107, kFar};
  const std::vector<std::int64_t> offset = {std::int64_t{1} << 40, -(std::int64_t{1} << 40), 5, -3, 0};
  const InPages in(*this);
  Results got(rows);
  RunArgs args{.q = packed(q, 0, rows, kHeads),
               .k = packed(k, 0, keys, kKvHeads),
               .v = packed(v, 0, keys, kKvHeads),
               .out = got.o(0, rows),
               .lse = got.l(0, rows, rows),
               .sizes_at = {.sequences = 5, .most_q = 90, .most_k = 200, .cu_q = wrong.data(), .cu_k = wrong.data()}};
  const auto expect = [&](bool paged, const char* on_host) {
    const auto status = compile(paged).run(args);
    EXPECT_EQ(status.ok(), is_gpu) << (status.ok() ? "" : status.error().message);
    EXPECT_EQ(status.ok() ? on_host : status.error().message, on_host);
  };
  expect(false, "sequence 0 has 2147483652 queries; sizes_at.most_q is 90");
  args.sizes_at.offset = offset.data();
  expect(false, "sequence 0 has 2147483652 queries; sizes_at.most_q is 90");
  const auto right = as_ints(cu_q);
  args.sizes_at = {.sequences = 5, .most_q = 70, .most_k = 129, .cu_q = right.data(), .kv_lengths = wrong.data()};
  args.k = in.k(), args.v = in.v(), args.pages = in.pages();
  expect(true, "sequence 1 has 2147483647 keys; sizes_at.most_k is 129");
}

TEST_P(Sequences, SizesInMemoryThatCannotBeAreRefused) {
  const auto at_q = as_ints(cu_q), at_k = as_ints(cu_k);
  Results got(rows);
  const RunArgs right{
      .q = packed(q, 0, rows, kHeads),
      .k = packed(k, 0, keys, kKvHeads),
      .v = packed(v, 0, keys, kKvHeads),
      .out = got.o(0, rows),
      .sizes_at = {.sequences = 5, .most_q = 70, .most_k = 129, .cu_q = at_q.data(), .cu_k = at_k.data()}};
  const Kernel kernel = compile(false);
  const auto message = [&](const auto& change) {
    RunArgs args = right;
    change(args);
    const auto status = kernel.run(args);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(message([&](RunArgs& args) { args.cu_q = cu_q; }), "cu_q and sizes_at are given: sizes stand in one place");
  EXPECT_EQ(message([](RunArgs& args) { args.sizes_at.sequences = -1; }),
            "sizes_at.sequences is -1; it must be 1 to 65535");
  EXPECT_EQ(message([](RunArgs& args) { args.sizes_at.cu_k = nullptr; }), "sizes_at.cu_q and cu_k go together");
  EXPECT_EQ(message([](RunArgs& args) { args.sizes_at.cu_q = args.sizes_at.cu_k = nullptr; }),
            "sizes_at has neither cu_q and cu_k, nor kv_lengths, nor offset");
  EXPECT_EQ(message([&](RunArgs& args) { args.sizes_at.kv_lengths = at_q.data(); }),
            "sizes_at.kv_lengths are of K and V in pages (CompileOptions::paged)");
  EXPECT_EQ(message([](RunArgs& args) { args.sizes_at.most_q = 0; }), "sizes_at.most_q is 0; q has 1 to 107");
  EXPECT_EQ(message([](RunArgs& args) { args.sizes_at.most_k = 317; }), "sizes_at.most_k is 317; k has 1 to 316");
  EXPECT_EQ(message([](RunArgs& args) { args.slice = {.first = 0, .of = 200}; }),
            "sizes_at is of whole sequences, not of slices");
  EXPECT_EQ(message([&](RunArgs& args) {
              args.sizes_at.cu_q =
                  reinterpret_cast<const std::int32_t*>(reinterpret_cast<const char*>(at_q.data()) + 1);
            }),
            "sizes_at.cu_q is misaligned; expected a multiple of 4 bytes");
  EXPECT_EQ(got.out, std::vector<float>(got.out.size(), -7));
}

/// As one in a batch that is being served: its keys would be cut into chunks, if it had queries.
TEST(SequencesWithoutQueries, MayHaveManyKeys) {
  constexpr std::int64_t kRows = 3, kKeysOfFirst = 5, kMany = 3000;
  const std::vector<float> of_rows = numbers(kRows * kDim, 1), of_keys = numbers((kKeysOfFirst + kMany) * kDim, 2);
  for (const char* target : {"cpu", "emulate:sm_61", "emulate:sm_80"}) {
    const Engine engine{{.no_cache = true}};
    const auto kernel =
        engine.compile("pattern p { keep causal; }", {.dim = kDim, .dtype = DType::f32, .target = target});
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const auto run = [&](const std::vector<std::int64_t>& borders_q, const std::vector<std::int64_t>& borders_k) {
      std::vector<float> out(of_rows.size(), -7);
      const auto keys_of_all = dense_view(of_keys.data(), DType::f32, {1, kKeysOfFirst + kMany, 1, kDim});
      const auto status = kernel->run({.q = dense_view(of_rows.data(), DType::f32, {1, kRows, 1, kDim}),
                                       .k = keys_of_all,
                                       .v = keys_of_all,
                                       .out = dense_output(out.data(), DType::f32, {1, kRows, 1, kDim}),
                                       .cu_q = borders_q,
                                       .cu_k = borders_k});
      EXPECT_TRUE(status.ok()) << status.error().message;
      return out;
    };
    EXPECT_EQ(run({0, kRows, kRows}, {0, kKeysOfFirst, kKeysOfFirst + kMany}), run({0, kRows}, {0, kKeysOfFirst}));
    EXPECT_EQ(run({kRows, kRows}, {0, kMany}), std::vector<float>(of_rows.size(), -7)) << "nothing is written";
  }
}

/// Of a GPU: a CPU looks at sizes before it makes lists.
TEST(SizesInMemory, AreRefusedWhereListsAreMadeForThoseOfTheHost) {
  const Engine engine{{.no_cache = true}};
  const std::vector<float> x(20 * kDim, 1);
  const std::vector<std::int32_t> documents(30, 0), borders = {0, 5, 20};
  const auto rows = dense_view(x.data(), DType::f32, {1, 20, 1, kDim});
  std::vector<float> out(x.size(), -7);
  const std::vector<NamedInput> inputs = {{"doc", dense_view(documents.data(), DType::i32, {2, 15})}};
  const RunArgs args{
      .q = rows,
      .k = rows,
      .v = rows,
      .out = dense_output(out.data(), DType::f32, {1, 20, 1, kDim}),
      .inputs = inputs,
      .sizes_at = {.sequences = 2, .most_q = 15, .most_k = 15, .cu_q = borders.data(), .cu_k = borders.data()}};
  const RunShape shape{.batch = 2, .n_q = 15, .n_k = 15, .sizes_at = true};
  for (const bool gradient : {false, true}) {
    const auto kernel =
        engine.compile("pattern p { input doc: i32[batch, tokens]; keep causal & document(doc); }",
                       {.dim = kDim, .dtype = DType::f32, .gradient = gradient, .target = "emulate:sm_61"});
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    const auto prepared = kernel->prepare(shape);
    ASSERT_FALSE(prepared.ok());
    EXPECT_EQ(prepared.error().message,
              "'p' passes over blocks of keys by lists, which are made for sizes that the host knows, not those of "
              "sizes_at: give cu_q and cu_k, or kv_lengths and offset, in the host's memory");
    if (gradient) continue;
    const auto ran = kernel->run(args);
    ASSERT_FALSE(ran.ok());
    EXPECT_EQ(ran.error().message, prepared.error().message);
  }
  EXPECT_EQ(out, std::vector<float>(out.size(), -7));
}

TEST_P(Sequences, WrongLengthsAreRefused) {
  const Kernel kernel = compile(false);
  Results got(rows);
  RunArgs args{.q = packed(q, 0, rows, kHeads),
               .k = packed(k, 0, keys, kKvHeads),
               .v = packed(v, 0, keys, kKvHeads),
               .out = got.o(0, rows)};
  const auto message = [&](std::vector<std::int64_t> of_q, std::vector<std::int64_t> of_k) {
    args.cu_q = of_q;
    args.cu_k = of_k;
    const auto status = kernel.run(args);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(message({0, 3, 2}, {0, 5, 9}), "cu_q[2] is 2, less than the 3 before it");
  EXPECT_EQ(message({0, 3}, {0, 5, 9}), "cu_q has 2 entries and cu_k 3");
  EXPECT_EQ(message({0, 3}, {}), "cu_q and cu_k go together");
  args.slice = {.first = 0, .of = rows};
  EXPECT_EQ(message({0, 3}, {0, 5}), "packed sequences (cu_q) have no slice: leave out sequences or rows of them");
  args.slice = {};
  EXPECT_EQ(message({0, 3}, {0, keys + 1}), "cu_k ends at 317; k has 316 tokens");
  EXPECT_EQ(got.out, std::vector<float>(got.out.size(), -7));
}

INSTANTIATE_TEST_SUITE_P(Patterns, Sequences,
                         ::testing::Combine(::testing::Values("pattern p { keep causal; }",
                                                              "pattern p { keep window(20, 0); }",
                                                              "pattern p { branches dilated(segments: [16, 64], "
                                                              "rates: [1, 3]); keep causal; }",
                                                              "pattern p { keep causal; schedule { chunk: 64; } }"),
                                            ::testing::Values("cpu", "emulate:sm_61")));

/// Plain lanes, and matrix instructions.
struct Row {
  const char* target;
  DType dtype;
};
class PackedOnGpus : public ::testing::TestWithParam<Row> {};

TEST_P(PackedOnGpus, HaveTheBitsOfEachSequence) {
  EXPECT_EQ(wrong_with_packed_sequences(Engine({.no_cache = true}), GetParam().target, {GetParam().dtype}), "");
}

INSTANTIATE_TEST_SUITE_P(, PackedOnGpus,
                         ::testing::Values(Row{"emulate:sm_61", DType::f32}, Row{"emulate:sm_80", DType::f16}),
                         [](const auto& of) { return std::string(of.param.target).substr(8); });

}  // namespace
}  // namespace weft::test
