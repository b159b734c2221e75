#include "compiler/ir/tensor.h"
#include "runtime/cuda/memory.h"
#include "runtime/engine/cuda_executor.h"
#include "runtime/ring/views.h"
#include "tests/machine/fixture.h"
#include "tests/support/program.h"
#include "tests/support/stored.h"

#include <weft/ring.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

/// Rings whose ranks' rows lie on a GPU: two ranks of one, with the bits of one launch.
namespace weft::test {
namespace {

constexpr std::int64_t kTokens = 130, kHeads = 4, kKvHeads = 2, kDim = 32, kBatch = 2;

/// A tensor [B, n, H, d], or [B, H, n], on the GPU.
struct Placed {
  cuda::Buffer buffer;
  OutputView view = {};
};

class GpuRing : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const auto why = become(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }

  Placed place(const std::shared_ptr<const cuda::Device>& device, OutputView view, std::size_t numbers) {
    Placed out{.buffer = cuda::Buffer::allocate(device, numbers * size_of(view.dtype)).value(), .view = view};
    out.view.data = out.buffer.data();
    return out;
  }

  /// Q, K, V and dO, and what comes of them, of some rows.
  struct Tensors {
    static std::int64_t heads_of(std::size_t number) { return number == 1 || number == 2 ? kKvHeads : kHeads; }
    static OutputView view_of(std::size_t number, std::int64_t rows, void* data) {
      return dense_output(data, DType::f16, {kBatch, rows, heads_of(number), kDim});
    }
    static std::size_t bytes_of(std::size_t number, std::int64_t rows) {
      return static_cast<std::size_t>(kBatch * rows * heads_of(number) * kDim) * 2;
    }
  };

  /// Of both passes, in host memory: O, and the gradients of Q, K and V.
  struct Results {
    std::array<std::vector<std::byte>, 4> of = {};
    std::vector<float> lse = std::vector<float>(static_cast<std::size_t>(kBatch * kHeads * kTokens));
    OutputView view(std::size_t number) {
      of[number].resize(Tensors::bytes_of(kShapeOf[number], kTokens));
      return Tensors::view_of(kShapeOf[number], kTokens, of[number].data());
    }
    OutputView lse_view() { return dense_output(lse.data(), DType::f32, {kBatch, kHeads, kTokens}); }
  };
  static constexpr std::size_t kShapeOf[] = {0, 0, 1, 2};  // of results, that of Q, K or V

  using Given = std::array<Bytes, 4>;  // Q, K, V, dO
  struct Kernels {
    Kernel forward, backward;
  };

  void run_whole(const Kernels& kernels, const Given& given, std::span<const NamedInput> inputs, Results& results) {
    const auto device = device_of(kernels.forward);
    std::array<cuda::Buffer, 4> on_device;
    for (std::size_t i = 0; i < given.size(); ++i)
      on_device[i] = cuda::Buffer::upload(device, given[i].data(), given[i].size()).value();
    const auto read = [&](std::size_t i) { return operand(Tensors::view_of(i, kTokens, on_device[i].data())); };
    std::array<Placed, 4> found;
    for (std::size_t i = 0; i < found.size(); ++i)
      found[i] = place(device, results.view(i), Tensors::bytes_of(kShapeOf[i], kTokens) / 2);
    const auto lse = place(device, results.lse_view(), results.lse.size());
    RunArgs args{.q = read(0), .k = read(1), .v = read(2), .out = found[0].view, .lse = lse.view, .inputs = inputs};
    auto status = kernels.forward.run(args);
    ASSERT_TRUE(status.ok()) << status.error().message;
    args.d_out = read(3);
    args.dq = found[1].view;
    args.dk = found[2].view;
    args.dv = found[3].view;
    status = kernels.backward.run(args);
    ASSERT_TRUE(status.ok()) << status.error().message;
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_TRUE(found[i].buffer.copy_out(results.of[i].data(), results.of[i].size()).ok());
    ASSERT_TRUE(lse.buffer.copy_out(results.lse.data(), results.lse.size() * sizeof(float)).ok());
  }

  /// One rank: its rows go to the GPU, and what comes of them is brought together on rank 0.
  Status run_rank(const Kernels& kernels, const Given& given, std::span<const NamedInput> inputs,
                  std::unique_ptr<Transport> transport, const RingOptions& options, Results& results) {
    const auto device = device_of(kernels.forward);
    WEFT_TRY(const auto ring, Ring::join(std::move(transport), options));
    const RingShape shape{kBatch, kTokens, kHeads, kKvHeads};
    WEFT_TRY(const auto forward, ring->plan(kernels.forward, shape, inputs));
    WEFT_TRY(const auto backward, ring->plan(kernels.backward, shape, inputs));
    const auto rows = forward->share().tokens;
    const auto own = [&](std::size_t number) {
      const auto width = static_cast<std::size_t>(Tensors::heads_of(number) * kDim) * 2;
      Bytes mine;
      for (std::int64_t b = 0; b < kBatch; ++b) {
        for (const auto& run : forward->owned(ring->rank())) {
          for (std::int64_t i = 0; i < run.count; ++i) {
            const auto* const row =
                given[number].data() + static_cast<std::size_t>(b * kTokens + run.first + i * run.stride) * width;
            mine.insert(mine.end(), row, row + width);
          }
        }
      }
      return cuda::Buffer::upload(device, mine.data(), mine.size());
    };
    std::array<cuda::Buffer, 4> on_device;
    for (std::size_t i = 0; i < on_device.size(); ++i) {
      WEFT_TRY(on_device[i], own(i));
    }
    const auto read = [&](std::size_t i) { return operand(Tensors::view_of(i, rows, on_device[i].data())); };
    std::array<Placed, 4> found;
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i] = place(device, Tensors::view_of(kShapeOf[i], rows, nullptr), Tensors::bytes_of(kShapeOf[i], rows) / 2);
    }
    const auto lse = place(device, dense_output(nullptr, DType::f32, {kBatch, kHeads, rows}),
                           static_cast<std::size_t>(kBatch * rows * kHeads));
    RingArgs args{.q = read(0), .k = read(1), .v = read(2), .out = found[0].view, .lse = lse.view, .inputs = inputs};
    for (int times = 0; times < 2; ++times) WEFT_CHECK(forward->run(args));
    args.d_out = read(3);
    args.dq = found[1].view;
    args.dk = found[2].view;
    args.dv = found[3].view;
    for (int times = 0; times < 2; ++times) WEFT_CHECK(backward->run(args));
    for (std::size_t i = 0; i < found.size(); ++i)
      WEFT_CHECK(forward->gather(operand(found[i].view), 1, results.view(i)));
    return forward->gather(operand(lse.view), 2, results.lse_view());
  }
};

TEST_P(GpuRing, HasTheBitsOfOneLaunch) {
  const auto engine = engine_of_machine();
  const ir::Shape shape{
      .batch = kBatch, .n_q = kTokens, .n_k = kTokens, .heads = kHeads, .kv_heads = kKvHeads, .d = kDim, .d_v = kDim};
  const auto tensors = draw_tensors(shape, ir::DType::f16, 5);
  const Given given = {stored(tensors.q, DType::f16), stored(tensors.k, DType::f16), stored(tensors.v, DType::f16),
                       stored(draw_tensors(shape, ir::DType::f16, 6).q, DType::f16)};
  std::vector<std::int32_t> documents(kBatch * kTokens);
  for (std::size_t i = 0; i < documents.size(); ++i) documents[i] = static_cast<std::int32_t>(i / 37);
  for (const char* text : {"pattern p { input doc: i32[batch, tokens]; branch window(40, 7) & document(doc); }",
                           "pattern p { branches dilated(segments: [32, 128], rates: [1, 2]); keep causal; }"}) {
    CompileOptions compiled{.dim = kDim, .dtype = DType::f16, .target = "cuda"};
    const auto kernel = engine.compile(text, compiled);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    compiled.gradient = true;
    const auto of_backward = engine.compile(text, compiled);
    ASSERT_TRUE(of_backward.ok()) << of_backward.error().message;
    const Kernels kernels{*kernel, *of_backward};
    std::vector<NamedInput> inputs;
    const auto on_device = cuda::Buffer::upload(device_of(*kernel), documents.data(), documents.size() * 4).value();
    if (std::string_view(text).find("doc") != std::string_view::npos)
      inputs.push_back({.name = "doc", .view = dense_view(on_device.data(), DType::i32, {kBatch, kTokens})});
    Results whole;
    run_whole(kernels, given, inputs, whole);
    for (const RingOptions& options :
         {RingOptions{}, RingOptions{.layout = RingLayout::zigzag}, RingOptions{.layout = RingLayout::striped},
          RingOptions{.carrier = RingCarrier::heads}}) {
      // Row by row: many launches.
      if (options.layout == RingLayout::striped && GetParam() != 80) continue;
      Results of_ring;
      auto transports = local_transports(2).value();
      std::vector<Status> said(2, done);
      std::vector<std::thread> ranks;
      for (std::size_t rank = 0; rank < 2; ++rank)
        ranks.emplace_back([&, rank] {
          Results unused;
          said[rank] =
              run_rank(kernels, given, inputs, std::move(transports[rank]), options, rank == 0 ? of_ring : unused);
        });
      for (auto& rank : ranks) rank.join();
      for (const auto& status : said) ASSERT_TRUE(status.ok()) << status.error().message;
      const auto how = fmt::format("{} layout {} carrier {}", text, static_cast<int>(options.layout),
                                   static_cast<int>(options.carrier));
      for (std::size_t i = 0; i < whole.of.size(); ++i) EXPECT_EQ(of_ring.of[i], whole.of[i]) << how << " result " << i;
      EXPECT_EQ(of_ring.lse, whole.lse) << how;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, GpuRing, ::testing::ValuesIn(kArchitectures),
                         [](const auto& row) { return fmt::format("sm_{}", row.param); });

}  // namespace
}  // namespace weft::test
