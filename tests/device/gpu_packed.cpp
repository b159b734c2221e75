#include "tests/device/gpu_packed.h"

#include "compiler/ir/tensor.h"
#include "runtime/cuda/memory.h"
#include "runtime/engine/cuda_executor.h"
#include "tests/support/effort.h"
#include "tests/support/program.h"
#include "tests/support/random_numbers.h"
#include "tests/support/stored.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace weft::test {
namespace {

constexpr std::int64_t kHeads = 4, kKvHeads = 2, kDim = 32;

/// Bytes where kernels reach them: on their GPU, or here where they are emulated.
class Memory {
 public:
  Memory(std::shared_ptr<const cuda::Device> device, Bytes bytes)
      : device_(std::move(device)), host_(std::move(bytes)) {
    if (device_) buffer_ = cuda::Buffer::upload(device_, host_.data(), host_.size()).value();
  }
  void* data() { return device_ ? buffer_.data() : host_.data(); }
  Result<Bytes> fetch() {
    if (device_) WEFT_CHECK(buffer_.copy_out(host_.data(), host_.size()));
    return host_;
  }

 private:
  std::shared_ptr<const cuda::Device> device_;
  Bytes host_;
  cuda::Buffer buffer_;
};

struct Lengths {
  std::vector<std::int64_t> q, k;
  std::vector<std::int64_t> offset = {};  ///< empty: the last query meets the last key
};

std::vector<std::int64_t> places_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> out(lengths.size() + 1);
  std::partial_sum(lengths.begin(), lengths.end(), out.begin() + 1);
  return out;
}

struct Kernels {
  Kernel forward, backward;
};

/// Q, K, V and dO of all sequences, and what comes of them: O, LSE, dQ, dK, dV.
class Packed {
 public:
  Packed(const Lengths& lengths, DType dtype)
      : dtype_(dtype),
        cu_q_(places_of(lengths.q)),
        cu_k_(places_of(lengths.k)),
        offset_(lengths.offset),
        rows_(cu_q_.back()),
        keys_(cu_k_.back()) {
    const ir::Shape shape{
        .batch = 1, .n_q = rows_, .n_k = keys_, .heads = kHeads, .kv_heads = kKvHeads, .d = kDim, .d_v = kDim};
    const auto type = dtype == DType::f32 ? ir::DType::f32 : ir::DType::f16;
    const auto tensors = draw_tensors(shape, type, 5);
    given_ = {stored(tensors.q, dtype), stored(tensors.k, dtype), stored(tensors.v, dtype),
              stored(draw_tensors(shape, type, 6).q, dtype)};
  }

  using Results = std::array<Bytes, 5>;

  /// In one launch of each pass, or in one for each sequence; with sizes in memory.
  enum class Way { apart, together, sizes_in_memory };
  Result<Results> run(const Kernels& kernels, Way way) const {
    const bool together = way != Way::apart;
    const auto device = device_of(kernels.forward);
    std::vector<Memory> given, found;
    for (const auto& bytes : given_) given.emplace_back(device, bytes);
    // Keys of sequences without rows have gradients of 0, which nobody writes who launches the others alone.
    const std::byte before{together ? std::uint8_t{0x7F} : std::uint8_t{0}};
    for (const std::size_t like : {0U, 0U, 1U, 2U}) found.emplace_back(device, Bytes(given_[like].size(), before));
    Memory lse(device, Bytes(static_cast<std::size_t>(rows_ * kHeads) * sizeof(float), before));
    const auto launch = [&](std::int64_t row, std::int64_t rows, std::int64_t key, std::int64_t keys,
                            RunArgs args) -> Status {
      const auto at = [&](Memory& memory, std::int64_t first, std::int64_t heads) {
        return static_cast<std::byte*>(memory.data()) +
               static_cast<std::size_t>(first * heads * kDim) * size_of(dtype_);
      };
      const auto read = [&](Memory& memory, std::int64_t first, std::int64_t n, std::int64_t heads) {
        return dense_view(at(memory, first, heads), dtype_, {1, n, heads, kDim});
      };
      const auto of = [&](Memory& memory, std::int64_t first, std::int64_t n, std::int64_t heads) {
        return dense_output(at(memory, first, heads), dtype_, {1, n, heads, kDim});
      };
      args.q = read(given[0], row, rows, kHeads);
      args.k = read(given[1], key, keys, kKvHeads);
      args.v = read(given[2], key, keys, kKvHeads);
      args.out = of(found[0], row, rows, kHeads);
      args.lse = dense_output(static_cast<float*>(lse.data()) + row, DType::f32, {1, kHeads, rows});
      args.lse.stride = {kHeads * rows_, rows_, 1, 0};
      const auto run = [&](const Kernel& kernel) {
        return way == Way::sizes_in_memory ? run_of_memory(kernel, device, args) : kernel.run(args);
      };
      WEFT_CHECK(run(kernels.forward));
      args.d_out = read(given[3], row, rows, kHeads);
      args.dq = of(found[1], row, rows, kHeads);
      args.dk = of(found[2], key, keys, kKvHeads);
      args.dv = of(found[3], key, keys, kKvHeads);
      return run(kernels.backward);
    };
    if (together) {
      RunArgs args;
      args.cu_q = cu_q_;
      args.cu_k = cu_k_;
      args.offset = offset_;
      WEFT_CHECK(launch(0, rows_, 0, keys_, args));
    }
    for (std::size_t b = 0; !together && b + 1 < cu_q_.size(); ++b) {
      if (cu_q_[b] == cu_q_[b + 1]) continue;
      RunArgs args;
      if (!offset_.empty()) args.offset = std::span(offset_).subspan(b, 1);
      WEFT_CHECK(launch(cu_q_[b], cu_q_[b + 1] - cu_q_[b], cu_k_[b], cu_k_[b + 1] - cu_k_[b], args));
    }
    Results out;
    for (std::size_t i = 0; i < found.size(); ++i) {
      WEFT_TRY(out[i], found[i].fetch());
    }
    WEFT_TRY(out[4], lse.fetch());
    return out;
  }

 private:
  /// With more room than the sequences take.
  Status run_of_memory(const Kernel& kernel, const std::shared_ptr<const cuda::Device>& device, RunArgs args) const {
    const auto bytes_of = [](const auto& numbers) {
      Bytes out(numbers.size() * sizeof numbers[0]);
      if (!out.empty()) std::memcpy(out.data(), numbers.data(), out.size());
      return out;
    };
    const auto ints = [&](const std::vector<std::int64_t>& numbers) {
      return bytes_of(std::vector<std::int32_t>(numbers.begin(), numbers.end()));
    };
    Memory cu_q(device, ints(cu_q_)), cu_k(device, ints(cu_k_));
    std::optional<Memory> offset;
    if (!offset_.empty()) offset.emplace(device, bytes_of(offset_));
    args.cu_q = args.cu_k = args.offset = {};
    args.sizes_at = {.sequences = std::ssize(cu_q_) - 1,
                     .most_q = rows_,
                     .most_k = keys_,
                     .cu_q = static_cast<const std::int32_t*>(cu_q.data()),
                     .cu_k = static_cast<const std::int32_t*>(cu_k.data()),
                     .offset = offset ? static_cast<const std::int64_t*>(offset->data()) : nullptr};
    WEFT_CHECK(kernel.run(args));
    if (device) WEFT_CHECK(cu_q.fetch());  // when the kernels have read them
    return done;
  }

  DType dtype_;
  std::vector<std::int64_t> cu_q_, cu_k_, offset_;
  std::int64_t rows_, keys_;
  std::array<Bytes, 4> given_;
};

/// Few rows and many of them, or none, at the end of their keys.
Lengths drawn(std::uint64_t seed) {
  RandomNumbers random(seed);
  Lengths out;
  for (auto left = random.between(1, 4); left > 0; --left) {
    out.q.push_back(
        random.pick<std::int64_t>({0, 1, random.between(1, 5), random.between(1, 80), random.between(100, 400)}));
    const auto some = random.between(0, 60), many = random.between(0, 900);
    const auto before = random.pick<std::int64_t>({0, some, many, many});
    out.k.push_back(std::max<std::int64_t>(1, out.q.back() + before));
  }
  if (places_of(out.q).back() == 0) out.q.front() = 1;
  return out;
}

Status check(const Engine& engine, const std::string& target, const std::vector<DType>& dtypes) {
  const std::int64_t many = target.starts_with("emulate") ? 1100 : 5000;  // keys
  // Some of several tiles; few rows with keys in many chunks, or in one; both, which are launches of their own.
  std::vector<Lengths> lengths = {{{3, 150, 1, 70}, {40, 150, 129, 90}},
                                  {{1, 4, 2}, {300, 200, 65}},
                                  {{1, 40, 2, 1}, {200, 40, 64, 130}},
                                  // Rows that do not meet the last keys.
                                  {{1, 4, 2}, {many, many, 265}, {many - 1, 390, 9}},
                                  {{70, 150, 200}, {150, 150, 150}, {0, 31, 77}},
                                  // More rows than those whose keys are cut, beside such.
                                  {{300, 1}, {320, many}}};
  const std::size_t chosen = lengths.size();
  const auto draws = static_cast<std::uint64_t>(effort(1, 3) * random_times());
  for (std::uint64_t seed = 7; seed < 7 + draws; ++seed) lengths.push_back(drawn(seed));
  constexpr const char* kTexts[] = {
      "pattern p { keep causal; sink_logit 0.5 * h; schedule { chunk: 64; } }",
      "pattern p { branch window(40, 7); branch where(3 * k < n_k); score s - 0.001 * abs(q - k) * (n_k + n_q); }",
      "pattern p { branches dilated(segments: [32, 128], rates: [1, 2]); keep causal; }"};
  constexpr const char* kNames[] = {"O", "dQ", "dK", "dV", "LSE"};
  for (const auto dtype : dtypes) {
    std::size_t number = 0;
    for (const char* text : kTexts) {
      if (!takes_turn_on(target, number++)) continue;
      CompileOptions compiling{.dim = kDim, .dtype = dtype, .target = target};
      WEFT_TRY(const auto forward, engine.compile(text, compiling));
      compiling.gradient = true;
      WEFT_TRY(const auto backward, engine.compile(text, compiling));
      const Kernels kernels{forward, backward};
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const Packed packed(lengths[i], dtype);
        WEFT_TRY(const auto together, packed.run(kernels, Packed::Way::together));
        WEFT_TRY(const auto apart, packed.run(kernels, Packed::Way::apart));
        std::string differs;
        for (std::size_t of = 0; of < apart.size(); ++of) {
          if (together[of] != apart[of]) differs += fmt::format(" {}", kNames[of]);
        }
        if (i % 3 == 0 || i == 5 || i >= chosen) {  // mixtures, and rows that do not meet the last keys
          WEFT_TRY(const auto in_memory, packed.run(kernels, Packed::Way::sizes_in_memory));
          if (in_memory != apart) differs += " what has its sizes in memory";
        }
        if (!differs.empty())
          return internal_error(fmt::format("{}, {}, lengths {}: other bits of{}", text, to_string(dtype), i, differs));
      }
    }
  }
  return done;
}

}  // namespace

std::string wrong_with_packed_sequences(const Engine& engine, const std::string& target,
                                        const std::vector<DType>& dtypes) {
  const auto checked = check(engine, target, dtypes);
  return checked.ok() ? "" : checked.error().message;
}

}  // namespace weft::test
