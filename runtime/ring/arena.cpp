#include "runtime/ring/arena.h"

#include "runtime/ring/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft {

namespace {

std::size_t page_aligned(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

Result<Arena> Arena::make(std::shared_ptr<KernelMemory> memory, const ir::Shape& shape,
                          const std::vector<Tensor>& tensors, const Present& present) {
  Arena out;
  out.shape_ = shape;
  bool fits = true;
  std::size_t all = 0;
  for (const auto& tensor : tensors) {
    Placed placed{.tensor = tensor, .begin = all};
    std::size_t rows = 0, bytes = 0;
    placed.row = static_cast<std::size_t>(tensor.dim) * size_of(tensor.dtype);
    fits = fits &&
           !__builtin_mul_overflow(std::max<std::int64_t>(1, tensor.branches) * shape.batch * tensor.heads, shape.n_k,
                                   &rows) &&
           !__builtin_mul_overflow(rows, placed.row, &bytes) && !__builtin_add_overflow(all, page_aligned(bytes), &all);
    out.tensors_.push_back(placed);
  }
  // The host's is given when it is touched.
  const auto used = fits && memory->device() ? out.used_by(present) : std::vector<ByteRange>();
  auto made =
      fits ? KernelBytes::make(std::move(memory), all, used) : Result<KernelBytes>(environment_error("out of memory"));
  if (!made) {
    auto error = made.error();
    error.notes.push_back(fmt::format("rows of {} tokens, {} heads, {} of K and V were to be placed", shape.n_k,
                                      shape.heads, shape.kv_heads));
    return error;
  }
  out.bytes_ = std::move(*made);
  return out;
}

OutputView Arena::whole(std::size_t number) const {
  const auto& of = tensors_[number];
  const auto& [heads, dim, dtype, by_head, branches] = of.tensor;
  if (branches > 0) return dense_output(bytes_.data() + of.begin, dtype, {branches, shape_.batch, heads, shape_.n_k});
  if (by_head) return dense_output(bytes_.data() + of.begin, dtype, {shape_.batch, heads, shape_.n_k});
  auto out = dense_output(bytes_.data() + of.begin, dtype, {shape_.batch, heads, shape_.n_k, dim});
  std::swap(out.extent[1], out.extent[2]);
  std::swap(out.stride[1], out.stride[2]);
  return out;
}

TensorView Arena::read(std::size_t number) const { return operand(whole(number)); }

OutputView Arena::rows(std::size_t number, const ring::Run& run) const {
  auto out = whole(number);
  const auto& of = tensors_[number].tensor;
  const std::size_t axis = of.branches > 0 ? 3 : of.by_head ? 2 : 1;
  out.data = static_cast<std::byte*>(out.data) +
             static_cast<std::size_t>((run.first - first_) * out.stride[axis]) * size_of(out.dtype);
  out.extent[axis] = run.count;
  return out;
}

std::size_t Arena::place_of(const Placed& of, std::int64_t branch, std::int64_t entry, std::int64_t head,
                            std::int64_t token) const {
  const auto row = ((branch * shape_.batch + entry) * of.tensor.heads + head) * shape_.n_k + token - first_;
  return of.begin + static_cast<std::size_t>(row) * of.row;
}

std::vector<ByteRange> Arena::used_by(const Present& present) const {
  std::vector<ByteRange> out;
  for (const auto& of : tensors_) {
    const auto group = of.tensor.heads / shape_.kv_heads;
    for (std::int64_t branch = 0; branch < branches_of(of); ++branch) {
      for (std::int64_t b = 0; b < shape_.batch; ++b) {
        for (std::int64_t h = 0; h < of.tensor.heads; ++h) {
          const auto add = [&](const ring::Runs& runs) {
            for (const auto& run : runs)
              out.push_back({place_of(of, branch, b, h, run.first), place_of(of, branch, b, h, run.end())});
          };
          add(present.own);
          for (const auto& needs : present.others) add(needs.at(b, h / group));
        }
      }
    }
  }
  return out;
}

Lines Arena::lines_of(const Placed& of, std::int64_t branch, std::int64_t entry, std::int64_t head,
                      const ring::Run& run) const {
  return {.data = bytes_.data() + place_of(of, branch, entry, head, run.first),
          .pitch = run.stride * static_cast<std::int64_t>(of.row)};
}

template <typename Pointer, typename Use>
Status Arena::each_own(std::size_t number, const ring::Runs& own, const View<Pointer>& view, const Use& use) const {
  const auto& of = tensors_[number];
  const std::size_t entries = of.tensor.branches > 0 ? 1 : 0;
  const std::size_t tokens = entries + (of.tensor.by_head ? 2 : 1), heads = entries + (of.tensor.by_head ? 1 : 2);
  const auto element = static_cast<std::int64_t>(size_of(view.dtype));
  auto* const data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(view.data)));
  for (std::int64_t branch = 0; branch < branches_of(of); ++branch) {
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      for (std::int64_t h = 0; h < of.tensor.heads; ++h) {
        const auto begin =
            branch * (entries > 0 ? view.stride[0] : 0) + b * view.stride[entries] + h * view.stride[heads];
        std::int64_t local = 0;
        for (const auto& run : own) {
          const Lines theirs{.data = data + (begin + local * view.stride[tokens]) * element,
                             .pitch = view.stride[tokens] * element};
          WEFT_CHECK(use(lines_of(of, branch, b, h, run), theirs, of.row, run.count));
          local += run.count;
        }
      }
    }
  }
  return done;
}

Status Arena::copy_in(std::size_t number, const ring::Runs& own, const TensorView& from) {
  return each_own(number, own, from, [&](const Lines& here, const Lines& there, std::size_t width, std::int64_t lines) {
    return bytes_.memory().copy(here, there, width, lines);
  });
}

Status Arena::copy_out(std::size_t number, const ring::Runs& own, const OutputView& to) const {
  return each_own(number, own, to, [&](const Lines& here, const Lines& there, std::size_t width, std::int64_t lines) {
    return bytes_.memory().copy(there, here, width, lines);
  });
}

template <typename Use>
Status Arena::each_run(const ring::Needs& rows, const Use& use) const {
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    for (std::int64_t kv = 0; kv < shape_.kv_heads; ++kv) {
      for (const auto& of : tensors_) {
        const auto group = of.tensor.heads / shape_.kv_heads;
        for (std::int64_t branch = 0; branch < branches_of(of); ++branch) {
          for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
            for (const auto& run : rows.at(b, kv)) WEFT_CHECK(use(lines_of(of, branch, b, h, run), of.row, run.count));
          }
        }
      }
    }
  }
  return done;
}

Status Arena::pack(const ring::Needs& rows, const KernelBytes& message, std::size_t begin) const {
  return each_run(rows, [&](const Lines& here, std::size_t width, std::int64_t lines) {
    const auto there = message.lines(begin, width);
    begin += width * static_cast<std::size_t>(lines);
    return bytes_.memory().copy(there, here, width, lines);
  });
}

Status Arena::unpack(const ring::Needs& rows, const KernelBytes& message, std::size_t begin) {
  return each_run(rows, [&](const Lines& here, std::size_t width, std::int64_t lines) {
    const auto there = message.lines(begin, width);
    begin += width * static_cast<std::size_t>(lines);
    return bytes_.memory().copy(here, there, width, lines);
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
