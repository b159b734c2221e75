#include "runtime/ring/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>

namespace weft {

namespace {

std::size_t page_aligned(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

Result<Arena> Arena::make(const ir::Shape& shape, DType dtype) {
  Arena out;
  out.shape_ = shape;
  out.dtype_ = dtype;
  std::size_t keys = 0, k = 0, v = 0;
  const bool fits = !__builtin_mul_overflow(shape.batch * shape.kv_heads, shape.n_k, &keys) &&
                    !__builtin_mul_overflow(keys, static_cast<std::size_t>(shape.d) * size_of(dtype), &k) &&
                    !__builtin_mul_overflow(keys, static_cast<std::size_t>(shape.d_v) * size_of(dtype), &v);
  out.k_bytes_ = page_aligned(k);
  out.bytes_ = out.k_bytes_ + page_aligned(v);
  void* const memory =
      fits ? mmap(nullptr, out.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
           : MAP_FAILED;
  if (memory == MAP_FAILED) {
    return environment_error(fmt::format("out of memory: no address space for K and V of {} tokens, {} kv heads",
                                         shape.n_k, shape.kv_heads));
  }
  out.memory_ = static_cast<std::byte*>(memory);
  return out;
}

Arena::Arena(Arena&& other) noexcept
    : shape_(other.shape_),
      dtype_(other.dtype_),
      memory_(std::exchange(other.memory_, nullptr)),
      k_bytes_(other.k_bytes_),
      bytes_(other.bytes_) {}

Arena::~Arena() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

TensorView Arena::view(std::size_t begin, std::int64_t dim, std::int64_t count) const {
  return dense_view(memory_ + begin, dtype_, {shape_.batch, count, shape_.kv_heads, dim});
}

OutputView Arena::rows(std::size_t begin, std::int64_t dim, const ring::Run& run) const {
  auto out = dense_output(memory_ + begin, dtype_, {shape_.batch, shape_.n_k, shape_.kv_heads, dim});
  out.data = memory_ + begin + static_cast<std::size_t>(run.first * out.stride[1]) * size_of(dtype_);
  out.extent[1] = run.count;
  return out;
}

void Arena::copy_in(const ring::Runs& own, const TensorView& k, const TensorView& v) {
  const auto element = static_cast<std::int64_t>(size_of(dtype_));
  const auto copy = [&](const TensorView& from, std::size_t begin, std::int64_t dim) {
    const auto row = dim * element;
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      std::int64_t local = 0;
      for (const auto& run : own) {
        for (std::int64_t i = 0; i < run.count; ++i, ++local) {
          const std::int64_t token = run.first + i * run.stride;
          auto* to = memory_ + begin + (b * shape_.n_k + token) * shape_.kv_heads * row;
          const auto* source =
              static_cast<const std::byte*>(from.data) + (b * from.stride[0] + local * from.stride[1]) * element;
          for (std::int64_t h = 0; h < shape_.kv_heads; ++h, to += row, source += from.stride[2] * element)
            std::memcpy(to, source, static_cast<std::size_t>(row));
        }
      }
    }
  };
  copy(k, 0, shape_.d);
  copy(v, k_bytes_, shape_.d_v);
}

template <typename Use>
void Arena::each_row(const ring::Needs& rows, const Use& use) const {
  const std::size_t element = size_of(dtype_);
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    for (std::int64_t kv = 0; kv < shape_.kv_heads; ++kv) {
      for (const auto& [begin, dim] : {std::pair{std::size_t{0}, shape_.d}, std::pair{k_bytes_, shape_.d_v}}) {
        const std::size_t row = static_cast<std::size_t>(dim) * element;
        for (const auto& run : rows.at(b, kv)) {
          for (std::int64_t i = 0; i < run.count; ++i) {
            const auto at = (b * shape_.n_k + run.first + i * run.stride) * shape_.kv_heads + kv;
            use(memory_ + begin + static_cast<std::size_t>(at) * row, row);
          }
        }
      }
    }
  }
}

void Arena::pack(const ring::Needs& rows, std::byte* to) const {
  each_row(rows, [&](const std::byte* row, std::size_t bytes) {
    std::memcpy(to, row, bytes);
    to += bytes;
  });
}

void Arena::unpack(const ring::Needs& rows, const std::byte* from) {
  each_row(rows, [&](std::byte* row, std::size_t bytes) {
    std::memcpy(row, from, bytes);
    from += bytes;
  });
}

std::size_t Arena::bytes_of(const ring::Needs& rows) const {
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    for (std::int64_t kv = 0; kv < shape_.kv_heads; ++kv) count += ring::count_of(rows.at(b, kv));
  }
  return static_cast<std::size_t>(count * (shape_.d + shape_.d_v)) * size_of(dtype_);
}

}  // namespace weft
