#include "tests/device/gpu_ring.h"

#include "compiler/ir/tensor.h"
#include "runtime/cuda/memory.h"
#include "runtime/engine/cuda_executor.h"
#include "runtime/ring/views.h"
#include "tests/support/near.h"
#include "tests/support/program.h"
#include "tests/support/stored.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string_view>
#include <thread>

namespace weft::test {
namespace {

constexpr std::int64_t kTokens = 200, kHeads = 4, kKvHeads = 2, kDim = 32, kBatch = 2;

/// A tensor [B, n, H, d], or [B, H, n], on the GPU.
struct Placed {
  cuda::Buffer buffer;
  OutputView view = {};
};

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

constexpr std::size_t kShapeOf[] = {0, 0, 1, 2};  // of results, that of Q, K or V

/// Of both passes, in host memory: O, and the gradients of Q, K and V.
struct Results {
  std::array<std::vector<std::byte>, 4> of = {};
  std::string bits = "one device";
  std::vector<float> lse = std::vector<float>(static_cast<std::size_t>(kBatch * kHeads * kTokens));
  OutputView view(std::size_t number) {
    of[number].resize(Tensors::bytes_of(kShapeOf[number], kTokens));
    return Tensors::view_of(kShapeOf[number], kTokens, of[number].data());
  }
  OutputView lse_view() { return dense_output(lse.data(), DType::f32, {kBatch, kHeads, kTokens}); }
};
using Given = std::array<Bytes, 4>;  // Q, K, V, dO
struct Kernels {
  Kernel forward, backward;
};

Status run_whole(const Kernels& kernels, const Given& given, std::span<const NamedInput> inputs, Results& results) {
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
  WEFT_CHECK(kernels.forward.run(args));
  args.d_out = read(3);
  args.dq = found[1].view;
  args.dk = found[2].view;
  args.dv = found[3].view;
  WEFT_CHECK(kernels.backward.run(args));
  for (std::size_t i = 0; i < found.size(); ++i)
    WEFT_CHECK(found[i].buffer.copy_out(results.of[i].data(), results.of[i].size()));
  return lse.buffer.copy_out(results.lse.data(), results.lse.size() * sizeof(float));
}

/// One rank: its rows go to the GPU, and what comes of them is brought together on rank 0.
Status run_rank(const Kernels& kernels, const Given& given, std::span<const NamedInput> inputs,
                std::unique_ptr<Transport> transport, const RingOptions& options, Results& results) {
  const auto device = device_of(kernels.forward);
  WEFT_TRY(const auto ring, Ring::join(std::move(transport), options));
  const RingShape shape{kBatch, kTokens, kHeads, kKvHeads};
  WEFT_TRY(const auto forward, ring->plan(kernels.forward, shape, inputs));
  results.bits = forward->summary().bits;
  // Of rounds of keys there are no gradients.
  std::unique_ptr<RingPlan> backward;
  if (options.memory == 0) {
    WEFT_TRY(backward, ring->plan(kernels.backward, shape, inputs));
  }
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
  for (int times = 0; times < 2 && backward; ++times) WEFT_CHECK(backward->run(args));
  for (std::size_t i = 0; i < (backward ? found.size() : 1); ++i)
    WEFT_CHECK(forward->gather(operand(found[i].view), 1, results.view(i)));
  return forward->gather(operand(lse.view), 2, results.lse_view());
}

/// On both ranks; results come together on rank 0.
Status run_ring(const Kernels& kernels, const Given& given, std::span<const NamedInput> inputs,
                const RingOptions& options, Results& results) {
  WEFT_TRY(auto transports, local_transports(2));
  std::vector<Status> said(2, done);
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      Results unused;
      said[rank] = run_rank(kernels, given, inputs, std::move(transports[rank]), options, rank == 0 ? results : unused);
    });
  for (auto& rank : ranks) rank.join();
  for (const auto& status : said) WEFT_CHECK(status);
  return done;
}

Status check_all(const Engine& engine, const std::string& target, const std::vector<RingOptions>& options, bool cuts) {
  const ir::Shape shape{
      .batch = kBatch, .n_q = kTokens, .n_k = kTokens, .heads = kHeads, .kv_heads = kKvHeads, .d = kDim, .d_v = kDim};
  const auto tensors = draw_tensors(shape, ir::DType::f16, 5);
  const Given given = {stored(tensors.q, DType::f16), stored(tensors.k, DType::f16), stored(tensors.v, DType::f16),
                       stored(draw_tensors(shape, ir::DType::f16, 6).q, DType::f16)};
  std::vector<std::int32_t> documents(kBatch * kTokens);
  for (std::size_t i = 0; i < documents.size(); ++i) documents[i] = static_cast<std::int32_t>(i / 37);
  int cut = 0;
  const std::vector<const char*> texts =
      cuts ? std::vector<const char*>{"pattern p { branch global(6) | window(3, 3); }"}
           : std::vector<const char*>{
                 "pattern p { input doc: i32[batch, tokens]; branch window(40, 7) & document(doc); }",
                 "pattern p { branches dilated(segments: [32, 128], rates: [1, 2]); keep causal; }"};
  for (const char* text : texts) {
    CompileOptions compiling{.dim = kDim, .dtype = DType::f16, .target = target};
    WEFT_TRY(const auto forward, engine.compile(text, compiling));
    compiling.gradient = true;
    WEFT_TRY(const auto backward, engine.compile(text, compiling));
    const Kernels kernels{forward, backward};
    std::vector<NamedInput> inputs;
    WEFT_TRY(const auto on_device,
             cuda::Buffer::upload(device_of(forward), documents.data(), documents.size() * sizeof documents[0]));
    if (std::string_view(text).find("doc") != std::string_view::npos)
      inputs.push_back({.name = "doc", .view = dense_view(on_device.data(), DType::i32, {kBatch, kTokens})});
    Results whole;
    WEFT_CHECK(run_whole(kernels, given, inputs, whole));
    for (const auto& of_ring : options) {
      Results found;
      WEFT_CHECK(run_ring(kernels, given, inputs, of_ring, found));
      const double bound = found.bits == "one device" ? 0 : 4e-3;
      cut += bound > 0 ? 1 : 0;
      constexpr const char* kNames[] = {"O", "dQ", "dK", "dV"};
      std::string differs = apart(found.lse, whole.lse) <= bound ? "" : " LSE";
      for (std::size_t i = 0; i < whole.of.size() && (i == 0 || of_ring.memory == 0); ++i) {
        const auto a = numbers_of(found.of[i], DType::f16), b = numbers_of(whole.of[i], DType::f16);
        differs +=
            (bound > 0 ? apart(a, b) <= 2 * bound : found.of[i] == whole.of[i]) ? "" : fmt::format(" {}", kNames[i]);
      }
      if (differs.empty()) continue;
      return internal_error(fmt::format("{} with layout {} and carrier {} has other bits of{}", text,
                                        static_cast<int>(of_ring.layout), static_cast<int>(of_ring.carrier), differs));
    }
  }
  const int wanted = cuts ? static_cast<int>(options.size()) : 0;
  return cut == wanted ? Status(done) : internal_error(fmt::format("{} rings cut keys, not {}", cut, wanted));
}

}  // namespace

std::string wrong_with_gpu_rings(const Engine& engine, const std::string& target,
                                 const std::vector<RingOptions>& options) {
  const auto checked = check_all(engine, target, options, false);
  return checked.ok() ? "" : checked.error().message;
}

std::string wrong_with_gpu_rings_that_cut(const Engine& engine, const std::string& target) {
  // Of a rank so much memory that keys come in rounds of 64.
  constexpr std::size_t kMemory = 4 * 64 * kBatch * kKvHeads * (kDim + kDim) * 2;
  const auto checked = check_all(
      engine, target, {{.layout = RingLayout::contiguous, .carrier = RingCarrier::queries}, {.memory = kMemory}}, true);
  return checked.ok() ? "" : checked.error().message;
}

}  // namespace weft::test
