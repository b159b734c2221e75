#include "runtime/ring/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft {

namespace {

std::size_t page_aligned(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

Result<Arena> Arena::make(const ir::Shape& shape, const std::vector<Tensor>& tensors) {
  Arena out;
  out.shape_ = shape;
  bool fits = true;
  for (const auto& tensor : tensors) {
    Placed placed{.tensor = tensor, .begin = out.bytes_};
    std::size_t rows = 0, bytes = 0;
    placed.row = static_cast<std::size_t>(tensor.dim) * size_of(tensor.dtype);
    fits = fits &&
           !__builtin_mul_overflow(std::max<std::int64_t>(1, tensor.branches) * shape.batch * tensor.heads, shape.n_k,
                                   &rows) &&
           !__builtin_mul_overflow(rows, placed.row, &bytes) &&
           !__builtin_add_overflow(out.bytes_, page_aligned(bytes), &out.bytes_);
    out.tensors_.push_back(placed);
  }
  void* const memory =
      fits ? mmap(nullptr, out.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
           : MAP_FAILED;
  if (memory == MAP_FAILED) {
    return environment_error(
        fmt::format("out of memory: no address space for rows of {} tokens, {} heads, {} of K "
                    "and V",
                    shape.n_k, shape.heads, shape.kv_heads));
  }
  out.memory_ = static_cast<std::byte*>(memory);
  return out;
}

Arena::Arena(Arena&& other) noexcept
    : shape_(other.shape_),
      tensors_(std::move(other.tensors_)),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_) {}

Arena::~Arena() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

OutputView Arena::whole(std::size_t number) const {
  const auto& of = tensors_[number];
  const auto& [heads, dim, dtype, by_head, branches] = of.tensor;
  if (branches > 0) return dense_output(memory_ + of.begin, dtype, {branches, shape_.batch, heads, shape_.n_k});
  if (by_head) return dense_output(memory_ + of.begin, dtype, {shape_.batch, heads, shape_.n_k});
  auto out = dense_output(memory_ + of.begin, dtype, {shape_.batch, heads, shape_.n_k, dim});
  std::swap(out.extent[1], out.extent[2]);
  std::swap(out.stride[1], out.stride[2]);
  return out;
}

TensorView Arena::read(std::size_t number) const {
  const auto view = whole(number);
  return {.data = view.data, .dtype = view.dtype, .rank = view.rank, .extent = view.extent, .stride = view.stride};
}

OutputView Arena::rows(std::size_t number, const ring::Run& run) const {
  auto out = whole(number);
  const auto& of = tensors_[number].tensor;
  const std::size_t axis = of.branches > 0 ? 3 : of.by_head ? 2 : 1;
  out.data =
      static_cast<std::byte*>(out.data) + static_cast<std::size_t>(run.first * out.stride[axis]) * size_of(out.dtype);
  out.extent[axis] = run.count;
  return out;
}

std::byte* Arena::address(const Placed& of, std::int64_t branch, std::int64_t entry, std::int64_t head,
                          std::int64_t token) const {
  const auto row = ((branch * shape_.batch + entry) * of.tensor.heads + head) * shape_.n_k + token;
  return memory_ + of.begin + static_cast<std::size_t>(row) * of.row;
}

template <typename Pointer, typename Use>
void Arena::each_own(std::size_t number, const ring::Runs& own, const View<Pointer>& view, const Use& use) const {
  const auto& of = tensors_[number];
  const std::size_t entries = of.tensor.branches > 0 ? 1 : 0;
  const std::size_t tokens = entries + (of.tensor.by_head ? 2 : 1), heads = entries + (of.tensor.by_head ? 1 : 2);
  for (std::int64_t branch = 0; branch < branches_of(of); ++branch) {
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      const auto begin = branch * (entries > 0 ? view.stride[0] : 0) + b * view.stride[entries];
      std::int64_t local = 0;
      for (const auto& run : own) {
        for (std::int64_t i = 0; i < run.count; ++i, ++local) {
          for (std::int64_t h = 0; h < of.tensor.heads; ++h) {
            use(address(of, branch, b, h, run.first + i * run.stride),
                static_cast<std::size_t>(begin + local * view.stride[tokens] + h * view.stride[heads]));
          }
        }
      }
    }
  }
}

void Arena::copy_in(std::size_t number, const ring::Runs& own, const TensorView& from) {
  each_own(number, own, from, [&](std::byte* here, std::size_t element) {
    std::memcpy(here, static_cast<const std::byte*>(from.data) + element * size_of(from.dtype), tensors_[number].row);
  });
}

void Arena::copy_out(std::size_t number, const ring::Runs& own, const OutputView& to) const {
  each_own(number, own, to, [&](const std::byte* here, std::size_t element) {
    std::memcpy(static_cast<std::byte*>(to.data) + element * size_of(to.dtype), here, tensors_[number].row);
  });
}

template <typename Use>
void Arena::each_run(const ring::Needs& rows, const Use& use) const {
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    for (std::int64_t kv = 0; kv < shape_.kv_heads; ++kv) {
      for (const auto& of : tensors_) {
        const auto group = of.tensor.heads / shape_.kv_heads;
        for (std::int64_t branch = 0; branch < branches_of(of); ++branch) {
          for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
            for (const auto& run : rows.at(b, kv)) {
              const std::int64_t together = run.stride == 1 ? run.count : 1;
              for (std::int64_t i = 0; i < run.count; i += together)
                use(address(of, branch, b, h, run.first + i * run.stride), static_cast<std::size_t>(together) * of.row);
            }
          }
        }
      }
    }
  }
}

void Arena::pack(const ring::Needs& rows, std::byte* to) const {
  each_run(rows, [&](const std::byte* here, std::size_t bytes) {
    std::memcpy(to, here, bytes);
    to += bytes;
  });
}

void Arena::unpack(const ring::Needs& rows, const std::byte* from) {
  each_run(rows, [&](std::byte* here, std::size_t bytes) {
    std::memcpy(here, from, bytes);
    from += bytes;
  });
}

std::size_t Arena::bytes_of(const ring::Needs& rows) const {
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    for (std::int64_t kv = 0; kv < shape_.kv_heads; ++kv) count += ring::count_of(rows.at(b, kv));
  }
  std::size_t row = 0;
  for (const auto& of : tensors_)
    row += static_cast<std::size_t>(of.tensor.heads / shape_.kv_heads * branches_of(of)) * of.row;
  return static_cast<std::size_t>(count) * row;
}

}  // namespace weft
