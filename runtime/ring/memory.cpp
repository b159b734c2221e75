#include "runtime/ring/memory.h"

#include "runtime/engine/cuda_executor.h"
#include "runtime/ring/gpu_memory.h"
#include "runtime/ring/views.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>
#include <utility>

namespace weft {

namespace {

class HostMemory final : public KernelMemory {
 public:
  Result<std::byte*> reserve(std::size_t bytes, const std::vector<ByteRange>&) override {
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return environment_error(fmt::format("out of memory: no address space for {} bytes of a ring", bytes));
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* data, std::size_t bytes) noexcept override { munmap(data, bytes); }
  Status copy(const Lines& to, const Lines& from, std::size_t width, std::int64_t lines) const override {
    if (lines == 0 || width == 0) return done;  // of nothing there may be no address
    const auto step = static_cast<std::int64_t>(width);
    if (to.pitch == step && from.pitch == step) {
      std::memcpy(to.data, from.data, width * static_cast<std::size_t>(lines));
      return done;
    }
    for (std::int64_t i = 0; i < lines; ++i) std::memcpy(to.data + i * to.pitch, from.data + i * from.pitch, width);
    return done;
  }
  Status clear(const Lines& what, std::size_t bytes) const override {
    if (bytes > 0) std::memset(what.data, 0, bytes);  // of nothing there may be no address
    return done;
  }
  Status settle() const override { return done; }
  std::optional<int> device() const override { return std::nullopt; }
  Result<bool> is_on_host(const void*) const override { return true; }
  void go_by(void*) override {}
};

}  // namespace

Result<std::shared_ptr<KernelMemory>> memory_of(const Kernel& kernel) {
  if (auto device = device_of(kernel)) return gpu_memory(std::move(device));
  return std::shared_ptr<KernelMemory>(std::make_shared<HostMemory>());
}

Result<std::shared_ptr<KernelMemory>> memory_of_messages(const std::shared_ptr<KernelMemory>& memory,
                                                         std::optional<int> device) {
  if (!device || !memory->device()) return std::shared_ptr<KernelMemory>(std::make_shared<HostMemory>());
  if (*device == *memory->device()) return memory;
  return user_error(
      fmt::format("the kernel runs on GPU {}, and the ring's transport moves what lies on GPU {}: compile it for "
                  "'cuda:{}'",
                  *memory->device(), *device, *device));
}

namespace {

/// Calls copy(lines of the tensor, lines of its row-major numbers, bytes of each).
template <typename Pointer, typename Copy>
Status each_line(const KernelMemory& memory, const View<Pointer>& view, std::byte* dense, const Copy& copy) {
  WEFT_TRY(const bool on_host, memory.is_on_host(view.data));
  const auto element = static_cast<std::int64_t>(size_of(view.dtype)),
             numbers = static_cast<std::int64_t>(numbers_of(view));
  const std::int64_t line = view.rank > 0 ? view.extent[static_cast<std::size_t>(view.rank - 1)] : 1;
  auto* const data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(view.data)));
  for (std::int64_t at = 0; at < numbers; at += line) {
    std::int64_t place = 0, rest = at;
    for (auto axis = static_cast<std::size_t>(view.rank); axis-- > 0; rest /= view.extent[axis])
      place += rest % view.extent[axis] * view.stride[axis];
    const Lines there{.data = data + place * element, .pitch = line * element, .on_host = on_host},
        here{.data = dense + at * element, .pitch = line * element, .on_host = true};
    WEFT_CHECK(copy(there, here, static_cast<std::size_t>(line * element)));
  }
  return done;
}

}  // namespace

Status to_host(const KernelMemory& memory, const TensorView& from, std::byte* to) {
  return each_line(memory, from, to, [&](const Lines& there, const Lines& here, std::size_t bytes) {
    return memory.copy(here, there, bytes, 1);
  });
}

Status from_host(const KernelMemory& memory, const std::byte* from, const OutputView& to) {
  return each_line(
      memory, to, const_cast<std::byte*>(from),
      [&](const Lines& there, const Lines& here, std::size_t bytes) { return memory.copy(there, here, bytes, 1); });
}

Result<KernelBytes> KernelBytes::make(std::shared_ptr<KernelMemory> memory, std::size_t bytes) {
  return make(std::move(memory), bytes, {{0, bytes}});
}

Result<KernelBytes> KernelBytes::make(std::shared_ptr<KernelMemory> memory, std::size_t bytes,
                                      const std::vector<ByteRange>& used) {
  KernelBytes out;
  if (bytes > 0) {
    WEFT_TRY(out.data_, memory->reserve(bytes, used));
  }
  out.memory_ = std::move(memory);
  out.bytes_ = bytes;
  return out;
}

KernelBytes::KernelBytes(KernelBytes&& other) noexcept { *this = std::move(other); }

KernelBytes& KernelBytes::operator=(KernelBytes&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Lines KernelBytes::lines(std::size_t begin, std::size_t width) const {
  return {.data = data_ + begin, .pitch = static_cast<std::int64_t>(width), .on_host = !memory_->device()};
}

Transport::Part KernelBytes::part(int peer, std::size_t begin, std::size_t bytes) const {
  return {.peer = peer, .data = data_ + begin, .bytes = bytes, .on_device = memory_->device().has_value()};
}

KernelBytes::~KernelBytes() {
  if (data_ != nullptr) memory_->release(data_, bytes_);
}

}  // namespace weft
