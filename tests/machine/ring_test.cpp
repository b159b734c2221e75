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

  /// Both results of a run, in host memory.
  struct Results {
    std::vector<std::byte> out = std::vector<std::byte>(static_cast<std::size_t>(kBatch * kTokens * kHeads * kDim) * 2);
    std::vector<float> lse = std::vector<float>(static_cast<std::size_t>(kBatch * kHeads * kTokens));
    OutputView out_view() { return dense_output(out.data(), DType::f16, {kBatch, kTokens, kHeads, kDim}); }
    OutputView lse_view() { return dense_output(lse.data(), DType::f32, {kBatch, kHeads, kTokens}); }
  };

  void run_whole(const Kernel& kernel, const std::array<Bytes, 3>& given, std::span<const NamedInput> inputs,
                 Results& results) {
    const auto device = device_of(kernel);
    const auto upload = [&](const Bytes& bytes) {
      return cuda::Buffer::upload(device, bytes.data(), bytes.size()).value();
    };
    const auto q = upload(given[0]), k = upload(given[1]), v = upload(given[2]);
    const auto out = place(device, results.out_view(), results.out.size() / 2);
    const auto lse = place(device, results.lse_view(), results.lse.size());
    const auto status = kernel.run({.q = dense_view(q.data(), DType::f16, {kBatch, kTokens, kHeads, kDim}),
                                    .k = dense_view(k.data(), DType::f16, {kBatch, kTokens, kKvHeads, kDim}),
                                    .v = dense_view(v.data(), DType::f16, {kBatch, kTokens, kKvHeads, kDim}),
                                    .out = out.view,
                                    .lse = lse.view,
                                    .inputs = inputs});
    ASSERT_TRUE(status.ok()) << status.error().message;
    ASSERT_TRUE(out.buffer.copy_out(results.out.data(), results.out.size()).ok());
    ASSERT_TRUE(lse.buffer.copy_out(results.lse.data(), results.lse.size() * sizeof(float)).ok());
  }

  /// One rank: its rows go to the GPU, and what comes of them is brought together on rank 0.
  Status run_rank(const Kernel& kernel, const std::array<Bytes, 3>& given, std::span<const NamedInput> inputs,
                  std::unique_ptr<Transport> transport, const RingOptions& options, Results& results) {
    const auto device = device_of(kernel);
    WEFT_TRY(const auto ring, Ring::join(std::move(transport), options));
    WEFT_TRY(const auto plan, ring->plan(kernel, {kBatch, kTokens, kHeads, kKvHeads}, inputs));
    const auto rows = plan->share().tokens;
    const auto own = [&](const Bytes& whole, std::int64_t heads) {
      const auto width = static_cast<std::size_t>(heads * kDim) * 2;
      Bytes mine;
      for (std::int64_t b = 0; b < kBatch; ++b) {
        for (const auto& run : plan->owned(ring->rank())) {
          for (std::int64_t i = 0; i < run.count; ++i) {
            const auto* const row =
                whole.data() + static_cast<std::size_t>(b * kTokens + run.first + i * run.stride) * width;
            mine.insert(mine.end(), row, row + width);
          }
        }
      }
      return cuda::Buffer::upload(device, mine.data(), mine.size());
    };
    WEFT_TRY(const auto q, own(given[0], kHeads));
    WEFT_TRY(const auto k, own(given[1], kKvHeads));
    WEFT_TRY(const auto v, own(given[2], kKvHeads));
    const auto out = place(device, dense_output(nullptr, DType::f16, {kBatch, rows, kHeads, kDim}),
                           static_cast<std::size_t>(kBatch * rows * kHeads * kDim));
    const auto lse = place(device, dense_output(nullptr, DType::f32, {kBatch, kHeads, rows}),
                           static_cast<std::size_t>(kBatch * rows * kHeads));
    const RingArgs args{.q = dense_view(q.data(), DType::f16, {kBatch, rows, kHeads, kDim}),
                        .k = dense_view(k.data(), DType::f16, {kBatch, rows, kKvHeads, kDim}),
                        .v = dense_view(v.data(), DType::f16, {kBatch, rows, kKvHeads, kDim}),
                        .out = out.view,
                        .lse = lse.view,
                        .inputs = inputs};
    for (int times = 0; times < 2; ++times) WEFT_CHECK(plan->run(args));
    WEFT_CHECK(plan->gather(operand(out.view), 1, results.out_view()));
    return plan->gather(operand(lse.view), 2, results.lse_view());
  }
};

TEST_P(GpuRing, HasTheBitsOfOneLaunch) {
  const auto engine = engine_of_machine();
  const ir::Shape shape{
      .batch = kBatch, .n_q = kTokens, .n_k = kTokens, .heads = kHeads, .kv_heads = kKvHeads, .d = kDim, .d_v = kDim};
  const auto tensors = draw_tensors(shape, ir::DType::f16, 5);
  const std::array<Bytes, 3> given = {stored(tensors.q, DType::f16), stored(tensors.k, DType::f16),
                                      stored(tensors.v, DType::f16)};
  std::vector<std::int32_t> documents(kBatch * kTokens);
  for (std::size_t i = 0; i < documents.size(); ++i) documents[i] = static_cast<std::int32_t>(i / 37);
  for (const char* text : {"pattern p { input doc: i32[batch, tokens]; branch window(40, 7) & document(doc); }",
                           "pattern p { branches dilated(segments: [32, 128], rates: [1, 2]); keep causal; }"}) {
    const auto kernel = engine.compile(text, {.dim = kDim, .dtype = DType::f16, .target = "cuda"});
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    std::vector<NamedInput> inputs;
    const auto on_device = cuda::Buffer::upload(device_of(*kernel), documents.data(), documents.size() * 4).value();
    if (std::string_view(text).find("doc") != std::string_view::npos)
      inputs.push_back({.name = "doc", .view = dense_view(on_device.data(), DType::i32, {kBatch, kTokens})});
    Results whole;
    run_whole(*kernel, given, inputs, whole);
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
              run_rank(*kernel, given, inputs, std::move(transports[rank]), options, rank == 0 ? of_ring : unused);
        });
      for (auto& rank : ranks) rank.join();
      for (const auto& status : said) ASSERT_TRUE(status.ok()) << status.error().message;
      const auto how = fmt::format("{} layout {} carrier {}", text, static_cast<int>(options.layout),
                                   static_cast<int>(options.carrier));
      EXPECT_EQ(of_ring.out, whole.out) << how;
      EXPECT_EQ(of_ring.lse, whole.lse) << how;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, GpuRing, ::testing::ValuesIn(kArchitectures),
                         [](const auto& row) { return fmt::format("sm_{}", row.param); });

}  // namespace
}  // namespace weft::test
