/// Launches under capture: a graph replays what was queued when nothing of the host stands as it did.

#include "engine_fixture.h"

#include <deque>
#include <utility>

namespace weft::test {
namespace {

/// A graph replays what was queued, when the host's memory is long another's.
TEST_F(CudaEngine, CapturedLaunchesNeedNothingOfTheHost) {
  const Engine engine(options());
  const auto kernel = compile(engine, kLongnet, f32());
  const RunShape shape{.batch = 2, .n_q = 60, .n_k = 60, .heads = 2, .kv_heads = 2};
  Problem problem(2, 60, 2, 32);
  const OnDevice memory(device_of(kernel), problem);
  const auto bytes = kernel.workspace(shape);
  ASSERT_TRUE(bytes.ok());
  const auto workspace = cuda::Buffer::allocate(device_of(kernel), *bytes);
  ASSERT_TRUE(workspace.ok());
  const std::vector<std::int64_t> meant = {3, 40};
  std::vector<std::int64_t> offsets = meant;
  auto args = memory.args(problem);
  args.offset = offsets;
  args.stream = reinterpret_cast<void*>(0x77);
  const auto refusal = [&] {
    const auto status = kernel.run(args);
    EXPECT_EQ(driver().forbidden, std::vector<std::string>());
    EXPECT_EQ(driver().launches.size(), 0u);
    return status.ok() ? std::string() : status.error().message;
  };
  driver().captured = 0x77;
  EXPECT_NE(refusal().find("call prepare(), with this shape before the capture"), std::string::npos);
  driver().captured = 0;
  ASSERT_TRUE(kernel.prepare(shape).ok());
  driver().captured = 0x77;
  EXPECT_NE(refusal().find("give a workspace of"), std::string::npos);

  args.workspace = {static_cast<std::byte*>(workspace->data()), *bytes};
  std::vector<Launched> graph;
  driver().on_launch = [&](const Launched& launched) { graph.push_back(launched); };
  const auto status = kernel.run(args);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(driver().forbidden, std::vector<std::string>());
  EXPECT_EQ(driver().count("cuMemcpyHtoDAsync_v2"), 0u);
  EXPECT_GE(driver().count("cuMemsetD32Async"), 2u);
  offsets = {0, 0};  // the host's memory is another's
  emulate(kernel);
  for (const auto& launched : graph) driver().on_launch(launched);
  driver().captured = 0;
  memory.fetch(problem);
  expect_meaning(kLongnet, problem, meant);

  // Another stream is not captured.
  args.stream = reinterpret_cast<void*>(0x99);
  args.workspace = {};
  driver().captured = 0;
  driver().forget();
  EXPECT_TRUE(kernel.run(args).ok());
  EXPECT_EQ(driver().count("cuMemcpyHtoDAsync_v2"), 1u);
}

/// Of matrix instructions, where sizes are found by decoding's text: rows of so many heads that share keys are its own,
/// or too many for its tile.
TEST_F(CudaEngine, DecodingIsCapturedOncePrepared) {
  driver().devices = {{"Stand-in 8.0", 80}};
  for (const auto& [heads, launches] : {std::pair(8, "weft_sizes weft_kernel "), {32, "weft_sizes weft_kernel "}}) {
    SCOPED_TRACE(heads);
    const Engine engine(options());
    const auto kernel = compile(engine, kCausal, {.dim = 32, .dtype = DType::f16, .target = "cuda"});
    const RunShape shape{.batch = 2, .n_q = 1, .n_k = 40, .heads = heads, .kv_heads = 1, .sizes_at = true};
    ASSERT_TRUE(kernel.prepare(shape).ok());
    const auto workspace = cuda::Buffer::allocate(device_of(kernel), kernel.workspace(shape).value());
    ASSERT_TRUE(workspace.ok());
    const std::vector<std::int64_t> offsets = {3, 39};
    const auto there = cuda::Buffer::upload(device_of(kernel), offsets.data(), offsets.size() * sizeof offsets[0]);
    ASSERT_TRUE(there.ok());
    Problem problem(2, 40, heads, 32);
    const OnDevice memory(device_of(kernel), problem);
    const auto rows = [&](const cuda::Buffer& at, std::int64_t n, std::int64_t of) {
      return dense_view(at.data(), DType::f16, {2, n, of, 32});
    };
    RunArgs args{.q = rows(memory.q, 1, heads), .k = rows(memory.k, 40, 1), .v = rows(memory.v, 40, 1)};
    args.out = dense_output(memory.out.data(), DType::f16, {2, 1, heads, 32});
    args.sizes_at = {.sequences = 2, .offset = static_cast<const std::int64_t*>(there->data())};
    args.stream = reinterpret_cast<void*>(0x77);
    args.workspace = {static_cast<std::byte*>(workspace->data()), kernel.workspace(shape).value()};
    driver().forget();
    driver().captured = 0x77;  // which that resets
    const auto status = kernel.run(args);
    driver().captured = 0;
    EXPECT_TRUE(status.ok()) << status.error().message;
    std::string names;
    for (const auto& launched : driver().launches) names += driver().functions.at(launched.function) + " ";
    EXPECT_EQ(names, launches);
  }
}

/// A graph of sizes that stand in the GPU's memory is replayed as they grow.
TEST_F(CudaEngine, CapturedLaunchesReadSizesWhenTheyAreReplayed) {
  const Engine engine(options());
  const auto kernel = compile(engine, kLongnet, f32());
  RunShape shape{.batch = 2, .n_q = 60, .n_k = 60, .heads = 2, .kv_heads = 2};
  Problem problem(2, 60, 2, 32);
  const OnDevice memory(device_of(kernel), problem);
  ASSERT_TRUE(kernel.prepare(shape).ok());
  const auto bytes = kernel.workspace(shape);
  ASSERT_TRUE(bytes.ok());
  const auto workspace = cuda::Buffer::allocate(device_of(kernel), *bytes);
  ASSERT_TRUE(workspace.ok());
  std::vector<std::int64_t> offsets = {3, 40};
  const auto there = cuda::Buffer::upload(device_of(kernel), offsets.data(), offsets.size() * sizeof offsets[0]);
  ASSERT_TRUE(there.ok());
  auto args = memory.args(problem);
  args.sizes_at = {.sequences = 2, .offset = static_cast<const std::int64_t*>(there->data())};
  args.stream = reinterpret_cast<void*>(0x77);
  args.workspace = {static_cast<std::byte*>(workspace->data()), *bytes};
  driver().forget();
  driver().captured = 0x77;  // which that resets
  // What was prepared has sizes as arguments.
  const auto refused = kernel.run(args);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("call prepare(), with this shape and its sizes_at before the capture"),
            std::string::npos)
      << refused.error().message;
  driver().captured = 0;
  shape.sizes_at = true;
  EXPECT_GT(kernel.prepare(shape)->compile_ms, 0);
  EXPECT_EQ(kernel.prepare(shape)->compile_ms, 0);
  driver().forget();
  driver().captured = 0x77;
  std::vector<Launched> graph;
  driver().on_launch = [&](const Launched& launched) { graph.push_back(launched); };
  const auto status = kernel.run(args);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(driver().forbidden, std::vector<std::string>());
  EXPECT_EQ(
      driver().count("cuMemsetD32Async") + driver().count("cuMemsetD2D8Async") + driver().count("cuMemcpyHtoDAsync_v2"),
      0u);
  driver().captured = 0;
  emulate(kernel);
  for (const std::int64_t further : {0, 17}) {
    for (auto& offset : offsets) offset += further;
    std::copy(offsets.begin(), offsets.end(), static_cast<std::int64_t*>(there->data()));
    for (const auto& launched : graph) driver().on_launch(launched);
    memory.fetch(problem);
    expect_meaning(kLongnet, problem, offsets);
  }
}

/// A backward launch of such sizes asks nothing of the host either, and clears what no sequence has.
TEST_F(CudaEngine, BackwardLaunchesOfSizesInMemoryAreCaptured) {
  constexpr std::int64_t kRows = 130, kHeads = 2, kDim = 32;
  const Engine engine(options());
  const auto kernel = compile(engine, kCausal, {.dim = kDim, .dtype = DType::f32, .gradient = true, .target = "cuda"});
  const RunShape shape{.batch = 2, .n_q = 70, .n_k = 70, .heads = kHeads, .kv_heads = kHeads, .sizes_at = true};
  ASSERT_TRUE(kernel.prepare(shape).ok());
  std::deque<cuda::Buffer> kept;
  const auto room = [&](std::size_t bytes) {
    auto made = cuda::Buffer::allocate(device_of(kernel), bytes);
    EXPECT_TRUE(made.ok());
    kept.push_back(std::move(*made));
    return static_cast<std::byte*>(kept.back().data());
  };
  const auto rows = [&] {
    return dense_output(room(kRows * kHeads * kDim * sizeof(float)), DType::f32, {1, kRows, kHeads, kDim});
  };
  const auto seen = [](const OutputView& view) { return dense_view(view.data, DType::f32, {1, kRows, kHeads, kDim}); };
  RunArgs args{.q = seen(rows()), .k = seen(rows()), .v = seen(rows()), .out = rows()};
  args.lse = dense_output(room(kRows * kHeads * sizeof(float)), DType::f32, {1, kHeads, kRows});
  args.d_out = seen(rows());
  args.dq = rows(), args.dk = rows(), args.dv = rows();
  const std::vector<std::int32_t> borders = {3, 60, 120};
  const auto there = cuda::Buffer::upload(device_of(kernel), borders.data(), borders.size() * sizeof borders[0]);
  ASSERT_TRUE(there.ok());
  const auto* const cu = static_cast<const std::int32_t*>(there->data());
  args.sizes_at = {.sequences = 2, .most_q = 70, .most_k = 70, .cu_q = cu, .cu_k = cu};
  args.stream = reinterpret_cast<void*>(0x77);
  const auto bytes = kernel.workspace(shape).value();
  args.workspace = {room(bytes), bytes};
  driver().forget();
  driver().captured = 0x77;
  const auto status = kernel.run(args);
  driver().captured = 0;
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(driver().forbidden, std::vector<std::string>());
  EXPECT_EQ(driver().count("cuMemcpyHtoDAsync_v2"), 0u);
  std::string names;
  for (const auto& launched : driver().launches) names += driver().functions.at(launched.function) + " ";
  EXPECT_EQ(names, "weft_sizes weft_zeros weft_terms weft_kernel weft_kernel ");
}

}  // namespace
}  // namespace weft::test
